"""Run programs of ExecuTorch: one file for each shape, with as many threads as the recipe has."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime, Verification
from hone_loading import load_part, require_cpu

shapes = load_part("shapes")

INDEX = "index.json"

Json = dict[str, Any]
Array = np.ndarray[Any, Any]


def find_file(folder: str | Path, shape: Json) -> Path:
    """Return where the file of a shape is.

    Raises:
        ValueError: It would be in another folder.
    """
    name = str(shape["name"])
    if Path(name).name != name:
        raise ValueError(f"a shape's name is no file's name: {name[:80]!r}")
    return Path(folder, f"model-{name}.pte")


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


def limit_threads(threads: int) -> None:
    """Give the pool of the process so many threads.

    Raises:
        ValueError: It did not take that number.
    """
    if portable_lib._threadpool_get_thread_count() != threads:  # noqa: SLF001 - there is no public name
        portable_lib._unsafe_reset_threadpool(threads)  # noqa: SLF001 - unsafe while another thread computes
    if (found := portable_lib._threadpool_get_thread_count()) != threads:  # noqa: SLF001
        raise ValueError(f"ExecuTorch computes with {found} threads, and not with {threads}")


class Session:
    """A program for each shape that the model was compiled for."""

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open the files of all shapes.

        Raises:
            ValueError: A file cannot be read, or the model is for another device or has no shapes.
        """
        require_cpu(job)
        limit_threads(int(job["threads"]))
        artifact = job["input"]
        index = read_index(artifact["path"])
        self._inputs = [spec["name"] for spec in index["inputs"]]
        self._outputs = [spec["name"] for spec in index["outputs"]]
        self._turn, self._methods = threading.Lock(), {}
        for shape in artifact["static_shapes"]:
            self._methods[find_key(index["inputs"], shape["sizes"])] = open_file(find_file(artifact["path"], shape))
        if not self._methods:
            raise ValueError("the model says no shapes that it was compiled for")

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name, of one of the shapes."""
        arrays = [feeds[name] for name in self._inputs]
        key = tuple([array.shape for array in arrays])
        method = self._methods.get(key)
        if method is None:
            raise ValueError(f"compiled for the shapes {sorted(self._methods)} and fed {key}")
        with self._turn:  # a method has one memory for its tensors
            found = method.execute([torch.from_numpy(np.ascontiguousarray(array)) for array in arrays])
            return {name: value.numpy().copy() for name, value in zip(self._outputs, found, strict=True)}


def open_file(path: Path) -> Any:
    """Return the method ``forward`` of a file.

    Raises:
        ValueError: The file is missing, or is none of ExecuTorch's.
    """
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    try:
        return Runtime.get().load_program(path, verification=Verification.InternalConsistency).load_method("forward")
    except RuntimeError as error:
        raise ValueError(f"{path.name} cannot be opened: {str(error).strip()[:300]}") from error


def find_key(specs: list[Json], sizes: Json) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs at some sizes of their dynamic dimensions.

    Raises:
        ValueError: The sizes are no sizes, or one is missing.
    """
    if any(isinstance(dim, str) for spec in specs for dim in spec["shape"]):
        found: tuple[tuple[int, ...], ...] = shapes.require_shapes(specs, sizes)
        return found
    return tuple(tuple(spec["shape"]) for spec in specs)
