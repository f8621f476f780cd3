"""Run programs with engines in them: one for each shape, on one GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hone_loading import load_part

from .library import DEVICE, require_gpu, torch_tensorrt

shapes = load_part("shapes")

INDEX = "index.json"

Json = dict[str, Any]
Array = np.ndarray[Any, Any]


def find_file(folder: str | Path, shape: Json) -> Path:
    """Return where the program of a shape is.

    Raises:
        ValueError: It would be in another folder.
    """
    name = str(shape["name"])
    if Path(name).name != name:
        raise ValueError(f"a shape's name is no file's name: {name[:80]!r}")
    return Path(folder, f"model-{name}.pt2")


def read_index(folder: str | Path) -> dict[str, list[Json]]:
    """Return the specs of a folder's model.

    Raises:
        ValueError: There is no index, or it does not say what it should.
    """
    try:
        index, names = json.loads(Path(folder, INDEX).read_text()), ("name", "dtype", "shape")
        return {side: [{name: spec[name] for name in names} for spec in index[side]] for side in ("inputs", "outputs")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{INDEX} cannot be read: {type(error).__name__}: {error}") from error


class Session:
    """A program for each shape that the model was compiled for."""

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open the programs of all shapes.

        Raises:
            ValueError: One cannot be read, the model is for another device or has no shapes, or there is no GPU.
        """
        artifact = job["input"]
        if artifact["device"] != DEVICE:
            raise ValueError(f"the model is for the device {artifact['device']}, and its engines compute on {DEVICE}")
        index = read_index(artifact["path"])
        self._inputs = [spec["name"] for spec in index["inputs"]]
        self._outputs = [spec["name"] for spec in index["outputs"]]
        self._programs = {}
        for shape in artifact["static_shapes"]:
            key = find_key(index["inputs"], shape["sizes"])
            self._programs[key] = open_program(find_file(artifact["path"], shape))
        if not self._programs:
            raise ValueError("the model says no shapes that it was compiled for")

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name, of one of the shapes."""
        arrays = [feeds[name] for name in self._inputs]
        key = tuple([array.shape for array in arrays])
        program = self._programs.get(key)
        if program is None:
            raise ValueError(f"compiled for the shapes {sorted(self._programs)} and fed {key}")
        with torch.inference_mode():
            found = program(*(torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE) for array in arrays))
            values = (found,) if isinstance(found, torch.Tensor) else found
            return {name: value.cpu().numpy() for name, value in zip(self._outputs, values, strict=True)}

    def synchronize(self) -> None:
        """Wait until the GPU has finished everything that was started."""
        torch.cuda.synchronize(DEVICE)


def open_program(path: Path) -> Any:
    """Return a program as a module.

    Raises:
        ValueError: It is missing or cannot be read here, or there is no GPU.
    """
    require_gpu()
    torch_tensorrt()
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    try:
        return torch.export.load(path).module()  # torch_tensorrt.load would try TorchScript after any error
    except Exception as error:
        why = str(error).strip()[:300]
        raise ValueError(f"{path.name} is damaged, or of another GPU or version of TensorRT: {why}") from error


def find_key(specs: list[Json], sizes: Json) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs at some sizes of their dynamic dimensions.

    Raises:
        ValueError: The sizes are no sizes, or one is missing.
    """
    if any(isinstance(dim, str) for spec in specs for dim in spec["shape"]):
        found: tuple[tuple[int, ...], ...] = shapes.require_shapes(specs, sizes)
        return found
    return tuple(tuple(spec["shape"]) for spec in specs)
