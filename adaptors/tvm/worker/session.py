"""Run what was compiled: a library for each shape, in Relax's virtual machine.

A folder has ``index.json`` and, for each shape, ``model-<shape>.so``. The index has the specs of ``inputs`` and
``outputs`` as the model's source has them.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hone_loading import load_part, require_cpu

shapes = load_part("shapes")

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

INDEX = "index.json"
THREADS = "TVM_NUM_THREADS"
_ALIGNMENT = 64
"""Bytes: compiled loops read an input by instructions that end the process where it is aligned to less (TVM's
``kAllocAlignment``)."""


def import_tvm(threads: int) -> Any:
    """Return the module, whose pool of threads has some number of them.

    Raises:
        ValueError: TVM was imported before with another number: its pool is made once.
    """
    os.environ[THREADS] = str(threads)
    import tvm
    from tvm.runtime.module import num_threads

    if (found := int(num_threads())) != threads:
        raise ValueError(f"TVM computes with {found} threads in this process, and {threads} are asked for")
    return tvm


def find_file(folder: str | Path, shape: Json) -> Path:
    """Return where the library of a shape is.

    Raises:
        ValueError: It would be in another folder.
    """
    name = str(shape["name"])
    if Path(name).name != name:
        raise ValueError(f"a shape's name is no file's name: {name[:80]!r}")
    return Path(folder, f"model-{name}.so")


def find_key(specs: list[Json], sizes: Json) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs at some sizes of their dynamic dimensions.

    Raises:
        ValueError: The sizes are no sizes, or one is missing.
    """
    if any(isinstance(dim, str) for spec in specs for dim in spec["shape"]):
        found: tuple[tuple[int, ...], ...] = shapes.require_shapes(specs, sizes)
        return found
    return tuple(tuple(spec["shape"]) for spec in specs)


def read_index(folder: str | Path) -> dict[str, list[Json]]:
    """Return the specs of a folder's model.

    Raises:
        ValueError: There is no index, or it does not say what it should.
    """
    try:
        index = json.loads(Path(folder, INDEX).read_text())
        names = ("name", "dtype", "shape")
        return {side: [{name: spec[name] for name in names} for spec in index[side]] for side in ("inputs", "outputs")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{INDEX} cannot be read: {type(error).__name__}: {error}") from error


def describe(job: Json) -> Json:
    """Return the specs of a saved model.

    Raises:
        KeyError: It is of another format.
        ValueError: Its index, or a library, is missing.
    """
    artifact = job["input"]
    if artifact["format"] != "tvm-so":
        raise KeyError(artifact["format"])
    for shape in artifact["static_shapes"]:
        if not find_file(artifact["path"], shape).is_file():
            raise ValueError(f"the library of {shape['name']} is missing")
    described: Json = read_index(artifact["path"])
    return described


class Bound(NamedTuple):
    """What computes one shape, with the memory that it reads."""

    call: Callable[..., Any]
    arrays: list[Array]
    tensors: list[Any]  # the same memory


class Session:
    """A virtual machine for each shape that the model was compiled for.

    Inputs are copied to memory that stays, and outputs are copied once: TVM's own conversions take longer than a small
    network computes. Calls of several threads wait for one another, since a machine has one state and that memory.
    """

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open the libraries of all shapes.

        Raises:
            ValueError: A library is missing, or the model is for another device or another number of threads.
        """
        require_cpu(job)
        artifact = job["input"]
        tvm = import_tvm(int(job["threads"]))
        from tvm import relax

        index = read_index(artifact["path"])
        self._inputs = [spec["name"] for spec in index["inputs"]]
        self._outputs = [spec["name"] for spec in index["outputs"]]
        self._turn, self._bound = threading.Lock(), {}
        for shape in artifact["static_shapes"]:
            library = tvm.runtime.load_module(str(find_file(artifact["path"], shape)))
            key = find_key(index["inputs"], shape["sizes"])
            arrays = [allocate(sizes, spec["dtype"]) for sizes, spec in zip(key, index["inputs"], strict=True)]
            tensors = [tvm.runtime.from_dlpack(array) for array in arrays]
            self._bound[key] = Bound(relax.VirtualMachine(library, tvm.cpu())["main"], arrays, tensors)
        if not self._bound:
            raise ValueError("the model says no shapes that it was compiled for")

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name, of one of the shapes.

        Raises:
            ValueError: It was not compiled for their shapes.
            TypeError: An input is of another type.
        """
        given = [feeds[name] for name in self._inputs]
        key = tuple([array.shape for array in given])
        bound = self._bound.get(key)
        if bound is None:
            raise ValueError(f"compiled for the shapes {sorted(self._bound)} and fed {key}")
        with self._turn:
            for array, own in zip(given, bound.arrays, strict=True):
                np.copyto(own, array, casting="equiv")
            found = bound.call(*bound.tensors)
            values = [found] if hasattr(found, "numpy") else [*found]
            # Copied: an output may be a constant of the model, or one of its inputs.
            arrays = [np.array(np.from_dlpack(value)) for value in values]
        return dict(zip(self._outputs, arrays, strict=True))


def allocate(sizes: tuple[int, ...], dtype: str) -> Array:
    """Return an array for an input of a compiled model, whose memory is aligned as TVM's own."""
    kind = np.dtype(dtype)
    count = math.prod(sizes) * kind.itemsize
    memory = np.zeros(count + _ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(kind).reshape(sizes)
