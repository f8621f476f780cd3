"""Toy models for tests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.digest import digest_tree

FEATURES = 4
CLASSES = 3


def make_model(folder: Path, *, seed: int = 0, slow: float = 1.0) -> Artifact:
    """Write a ``toy-source`` model and return it as an artifact.

    Args:
        folder: An empty directory, made when it does not exist.
        seed: Of its weights.
        slow: How many times two milliseconds a call sleeps.

    Returns:
        A runnable artifact that takes ``x`` (rows, 4) and returns ``y`` (rows, 3). Its digest is that of the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(seed)
    weights = draw.normal(size=(FEATURES, CLASSES)).astype(np.float32)
    bias = draw.normal(size=CLASSES).astype(np.float32)
    np.savez(folder / "weights.npz", w=weights, b=bias)
    (folder / "model.json").write_text(json.dumps({"nap": slow}), encoding="utf-8")
    return Artifact(
        format="toy-source",
        digest=digest_tree(folder),
        inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", FEATURES)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=("batch", CLASSES)),),
        runtime="toy",
    )
