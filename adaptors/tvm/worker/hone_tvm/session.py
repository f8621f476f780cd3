"""Run compiled models: a library for each shape, in Relax's virtual machine."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hone_runtime.sessions import compiled
from hone_runtime.worker.imports import require_cpu

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

ENDING = ".so"
THREADS = "TVM_NUM_THREADS"
_ALIGNMENT = 64
"""Alignment in bytes: compiled loops read an input by instructions that crash the process for a smaller alignment
(TVM's ``kAllocAlignment``)."""


def import_tvm(threads: int) -> Any:
    """Return the module, with the given number of threads in its pool.

    Raises:
        ValueError: TVM was imported before with another number: its pool is created only once.
    """
    os.environ[THREADS] = str(threads)
    import tvm
    from tvm.runtime.module import num_threads

    if (found := int(num_threads())) != threads:
        raise ValueError(f"TVM computes with {found} threads in this process, and {threads} are asked for")
    return tvm


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
        compiled.require_file(artifact["path"], shape, ENDING)
    return dict(compiled.read_index(artifact["path"]))


def open_model(job: Json) -> Any:
    """Return a session with the libraries for all shapes that a model was compiled for.

    Raises:
        ValueError: A library is missing, or the model is for another device or another number of threads.
    """
    require_cpu(job)
    tvm, folder, turn = import_tvm(int(job["threads"])), job["input"]["path"], threading.Lock()
    from tvm import relax

    index = compiled.read_index(folder)

    def open_one(shape: Json, key: tuple[tuple[int, ...], ...]) -> Session:
        library = tvm.runtime.load_module(str(compiled.require_file(folder, shape, ENDING)))
        inputs = {
            spec["name"]: allocate(sizes, spec["dtype"]) for sizes, spec in zip(key, index["inputs"], strict=True)
        }
        tensors = [tvm.runtime.from_dlpack(array) for array in inputs.values()]
        call = partial(relax.VirtualMachine(library, tvm.cpu())["main"], *tensors)
        return Session(call, inputs, [spec["name"] for spec in index["outputs"]], turn)

    return compiled.open_shapes(job["input"], index["inputs"], open_one)


class Session:
    """The virtual machine for one shape, with its input memory.

    Inputs are copied to persistent memory, and outputs are copied once: TVM's own conversions take longer than a small
    network's computation. Calls from several threads are serialized, since a machine has one state and that memory.
    """

    has_cache = False

    def __init__(
        self, call: Callable[[], Any], inputs: dict[str, Array], outputs: list[str], turn: threading.Lock
    ) -> None:
        """Store a call, its input memory, and the names of its outputs."""
        self._call, self._inputs, self._outputs, self._turn = call, inputs, outputs, turn

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name.

        Raises:
            TypeError: An input is of another type.
        """
        with self._turn:
            for name, own in self._inputs.items():
                np.copyto(own, feeds[name], casting="equiv")
            found = self._call()
            values = [found] if hasattr(found, "numpy") else [*found]
            # Copied: an output may be a constant of the model, or one of its inputs.
            arrays = [np.array(np.from_dlpack(value)) for value in values]
        return dict(zip(self._outputs, arrays, strict=True))


def allocate(sizes: tuple[int, ...], dtype: str) -> Array:
    """Return an array for an input of a compiled model, with TVM's memory alignment."""
    kind = np.dtype(dtype)
    count = math.prod(sizes) * kind.itemsize
    memory = np.zeros(count + _ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(kind).reshape(sizes)
