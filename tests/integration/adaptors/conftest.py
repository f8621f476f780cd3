"""Tiny real models for the adaptors' tests: one net, trained once in a session, in every source format."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest


@dataclass(frozen=True)
class DigitsSamples:
    """Rows of scikit-learn's digits that the net was not trained on.

    Attributes:
        calibration: A npz with one array, ``image``, of 256 rows.
        x: Images of the search split, float32 (512, 1, 8, 8), in 0..1.
        y: Their labels, int64 (512,).
    """

    calibration: Path
    x: np.ndarray
    y: np.ndarray


@pytest.fixture(scope="session")
def digits_models(tmp_path_factory) -> Path:
    """Folder with ``module/``, ``exported/``, ``onnx/``, ``calibration.npz``, ``search.npz``, not to be written."""
    out = tmp_path_factory.mktemp("digits")
    script = Path(__file__).with_name("digits_models.py")
    subprocess.run([sys.executable, "-W", "ignore", str(script), str(out)], check=True, stdout=subprocess.DEVNULL)
    return out


@pytest.fixture(scope="session")
def digits_module(digits_models: Path) -> Path:
    """A directory with ``digits_net.py`` (class ``DigitsNet``), ``state.pt`` (a state dict) and ``module.json``."""
    return digits_models / "module"


@pytest.fixture(scope="session")
def digits_exported(digits_models: Path) -> Path:
    """A directory with ``model.pt2``: ``image`` (batch, 1, 8, 8) to logits, batch dynamic."""
    return digits_models / "exported"


@pytest.fixture(scope="session")
def digits_onnx(digits_models: Path) -> Path:
    """A directory with ``model.onnx``: ``image`` (batch, 1, 8, 8) to ``logits`` (batch, 10), batch dynamic."""
    return digits_models / "onnx"


@pytest.fixture(scope="session")
def digits_samples(digits_models: Path) -> DigitsSamples:
    """Calibration rows as a npz and the search split as arrays."""
    search = np.load(digits_models / "search.npz")
    return DigitsSamples(calibration=digits_models / "calibration.npz", x=search["x"], y=search["y"])
