"""A toolchain for the learner's tests: its model is a matrix, its runtime is numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WORKER = """
import json
import os
from pathlib import Path

import numpy as np


class Session:
    def __init__(self, job):
        self.job = job
        self.weights = np.load(Path(job["input"]["path"]) / "weights.npy")
        self.calls = []
        self.inputs = [spec["name"] for spec in job["input"]["inputs"]]
        self.outputs = [spec["name"] for spec in job["input"]["outputs"]]
        self.shapes = [shape["sizes"]["batch"] for shape in job["input"]["static_shapes"]]

    def run(self, feeds):
        x = sum(feeds[name] for name in self.inputs)
        self.calls.append(len(x))
        if self.shapes and len(x) not in self.shapes:
            raise ValueError("not specialized for %d rows" % len(x))
        return {name: x @ self.weights * (index + 1) for index, name in enumerate(self.outputs)}


def load(job):
    return Session(job)
"""
"""What ``toy`` runs in."""


def make_toolchain(folder: Path, source: str = WORKER, name: str = "toy", extra: str | None = None):
    from hone_runtime.contract.toolchain import Toolchain

    (folder / "worker").mkdir(parents=True, exist_ok=True)
    (folder / "worker" / "__init__.py").write_text(source)
    return Toolchain(
        name=name,
        folder=folder,
        runs=frozenset({"toy"}),
        data=frozenset({"toy"}),
        extra=extra,
        environment={"HONE_TOY": "1"},
    )


def make_artifact(folder: Path, *, inputs=("x",), outputs=("y",), batches=(), interface=None, seal=True, **metadata):
    """Write a 4-to-3 matrix and return its artifact, sealed by a manifest."""
    from hone_runtime.learner.manifest import write_manifest
    from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
    from hone_runtime.values.manifest import Manifest

    folder.mkdir(parents=True)
    np.save(folder / "weights.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    artifact = Artifact(
        format="toy",
        digest="",
        inputs=tuple(TensorSpec(name=name, dtype="float32", shape=("batch", 4)) for name in inputs),
        outputs=tuple(TensorSpec(name=name, dtype="float32", shape=("batch", 3)) for name in outputs),
        runtime="toy",
        static_shapes=tuple(Shape(name=f"batch{size}", sizes={"batch": size}) for size in batches),
        metadata={**metadata, **({"interface": interface} if interface else {})},
    )
    artifact = artifact.model_copy(update={"digest": Manifest.measure(folder, artifact.manifest()).digest})
    if seal:
        write_manifest(folder, artifact)
    return artifact


def make_model(folder: Path, **options):
    """Write a model as ``make_artifact`` does, and return its artifact and the folder of its files."""
    return make_artifact(folder, **options), folder


def predict(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an input with a number of rows, and the toy's output."""
    x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    return x, x @ np.arange(12, dtype=np.float32).reshape(4, 3)
