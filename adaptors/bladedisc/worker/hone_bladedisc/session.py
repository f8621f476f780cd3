"""Open and run models of BladeDISC, compiled or not yet compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_blade  # noqa: F401 - registers the class of its engines, without which no file that has some is opened

from hone_runtime.worker.imports import require_cpu

FILE = "model.ts"
NAMES_FILE = "kedro_hone.json"
"""The entry of a file with the specs of its tensors."""


class Session:
    """A compiled model, on NumPy arrays."""

    has_cache = False

    def __init__(self, job: dict[str, Any]) -> None:
        """Open a compiled model.

        Raises:
            ValueError: It cannot be opened, or is for another device.
        """
        require_cpu(job)
        torch.set_num_threads(job["threads"])
        specs = keep_specs(job["input"])
        self._inputs, self._outputs = ([spec["name"] for spec in specs[side]] for side in ("inputs", "outputs"))
        self._model = open_model(job["input"]["path"])

    def run(self, feeds: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Return every output by name, for inputs by name."""
        tensors = [torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in self._inputs]
        with torch.inference_mode():
            found = self._model(*tensors)
        values = (found,) if isinstance(found, torch.Tensor) else found
        return {name: values[index].numpy() for index, name in enumerate(self._outputs)}


def open_model(folder: str, files: dict[str, Any] | None = None) -> Any:
    """Return the model of a folder; the entries named in ``files`` are read into it.

    Raises:
        ValueError: It cannot be opened: it is damaged, or has an operator that this PyTorch does not support.
    """
    try:
        return torch.jit.load(str(Path(folder, FILE)), map_location="cpu", _extra_files=files or {})
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"PyTorch {torch.__version__} cannot open {FILE}: {shorten(error)}") from error


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the specs of a compiled model; it is opened for this.

    Raises:
        KeyError: It is of another format.
        ValueError: It cannot be opened, or does not contain its specs.
    """
    if job["input"]["format"] != "bladedisc":
        raise KeyError(job["input"]["format"])
    files = {NAMES_FILE: ""}
    open_model(job["input"]["path"], files)
    try:
        return keep_specs(json.loads(files[NAMES_FILE]))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{FILE} does not say its inputs and outputs: {shorten(error)}") from error


def keep_specs(artifact: dict[str, Any]) -> dict[str, Any]:
    """Return only the specs of an artifact."""
    names = ("name", "dtype", "shape")
    return {side: [{name: spec[name] for name in names} for spec in artifact[side]] for side in ("inputs", "outputs")}


def shorten(error: Exception) -> str:
    """Return the first line of an error, with its class."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]
