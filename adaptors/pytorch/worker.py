"""PyTorch: export, quantize, compile and run models. Its parts lie beside it in ``worker_*.py``.

Run by path with the environment's python; imports nothing of kedro-hone.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path
from typing import Any

_PACKAGE = "_kedro_hone_pytorch"


def _part(name: str) -> types.ModuleType:
    """Return a part of this worker. The parts form a package of their own, since this file is loaded by path."""
    if _PACKAGE not in sys.modules:
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(Path(__file__).parent)]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.worker_{name}")


def _use_temporary(job: dict[str, Any]) -> None:
    """Keep what Inductor compiles in the job's own folder, unless the host chose another."""
    if job.get("temporary"):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(job["temporary"]) / "inductor"))


def transform(job: dict[str, Any]) -> dict[str, Any] | None:
    """Make ``job["output"]`` from ``job["input"]`` as ``job["adaptor"]`` says."""
    _use_temporary(job)
    return {**_part("steps").STEPS, **_part("compilers").STEPS}[job["adaptor"]](job)


def describe(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the specs of a saved model of one of PyTorch's formats."""
    _use_temporary(job)
    return _part("jobs").describe(job)


def load(job: dict[str, Any]) -> Any:
    """Return a session on ``job["input"]``."""
    _use_temporary(job)
    return _part("session").open_session(job)
