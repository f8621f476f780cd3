"""The toy toolchain's own code: ``y = x @ w + b`` and a sleep. Run by path; imports numpy only."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

NAP_SECONDS = 0.002


def read_model(folder: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return a model's arrays and attributes."""
    with np.load(Path(folder) / "weights.npz") as arrays:
        weights = {name: arrays[name] for name in arrays.files}
    return weights, json.loads((Path(folder) / "model.json").read_text())


def write_model(folder: str, weights: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    """Write a model; the same arrays give the same bytes."""
    np.savez(Path(folder) / "weights.npz", allow_pickle=False, **weights)
    (Path(folder) / "model.json").write_text(json.dumps(attributes, sort_keys=True))


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Round the weights (compress) or keep them (compile), as the adaptor says."""
    weights, attributes = read_model(job["input"]["path"])
    options = job["options"]
    if job["adaptor"] == "toy.compress":
        rounded = {name: array.astype(np.float16).astype(np.float32) for name, array in weights.items()}
        same = all(np.array_equal(rounded[name], weights[name]) for name in weights)
        if same and options["slow"] == 1 and not options["wrong"]:
            return {"nothing_to_do": "the weights are rounded already"}
        weights = rounded
    if options["wrong"]:
        weights = {name: -array for name, array in weights.items()}
    attributes["nap"] = attributes["nap"] * options["slow"]
    notes: dict[str, Any] = {"metadata": {"toy": 1}}
    if options.get("static"):
        shape = job["shapes"][0]
        attributes["batch"] = shape["sizes"]["batch"]
        notes["static_shapes"] = [shape["name"]]
    write_model(job["output"], weights, attributes)
    return notes


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors of a model and the digest of what it computes."""
    if job["input"]["format"] not in {"toy", "toy-source"}:
        raise KeyError(job["input"]["format"])
    weights, attributes = read_model(job["input"]["path"])
    batch = attributes.get("batch", "batch")
    rows, columns = weights["w"].shape
    graph = hashlib.sha256(weights["w"].tobytes() + weights["b"].tobytes()).hexdigest()
    return {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [batch, rows]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [batch, columns]}],
        "graph": f"sha256:{graph}",
    }


class Session:
    """A loaded toy model."""

    def __init__(self, weights: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
        self._weights = weights
        self._nap = NAP_SECONDS * attributes["nap"]
        self._batch = attributes.get("batch")

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return ``y`` for ``x``."""
        if self._batch is not None and len(feeds["x"]) != self._batch:
            raise ValueError(f"this model takes {self._batch} rows, not {len(feeds['x'])}")
        time.sleep(self._nap)
        return {"y": feeds["x"] @ self._weights["w"] + self._weights["b"]}


def load(job: dict[str, Any]) -> Session:
    """Open a model."""
    return Session(*read_model(job["input"]["path"]))
