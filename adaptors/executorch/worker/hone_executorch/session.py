"""Run programs of ExecuTorch: one file for each shape, with the recipe's number of threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime, Verification

from hone_runtime.sessions import compiled
from hone_runtime.worker.imports import require_cpu

ENDING = ".pte"

Json = dict[str, Any]
Array = np.ndarray[Any, Any]


def limit_threads(threads: int) -> None:
    """Set the number of threads of the process's pool.

    Raises:
        ValueError: The number was not accepted.
    """
    if portable_lib._threadpool_get_thread_count() != threads:  # noqa: SLF001 - there is no public name
        portable_lib._unsafe_reset_threadpool(threads)  # noqa: SLF001 - unsafe while another thread computes
    if (found := portable_lib._threadpool_get_thread_count()) != threads:  # noqa: SLF001
        raise ValueError(f"ExecuTorch computes with {found} threads, and not with {threads}")


def open_model(job: Json) -> Any:
    """Return a session with the methods for all shapes that a model was compiled for.

    Raises:
        ValueError: A file cannot be read, or the model is for another device or has no shapes.
    """
    require_cpu(job)
    limit_threads(int(job["threads"]))
    folder, turn = job["input"]["path"], threading.Lock()
    index = compiled.read_index(folder)
    names = [[spec["name"] for spec in index[side]] for side in compiled.SIDES]
    return compiled.open_shapes(
        job["input"], index["inputs"], lambda shape, _: Session(open_file(folder, shape), names, turn)
    )


class Session:
    """The method for one shape; calls from several threads are serialized."""

    has_cache = False

    def __init__(self, method: Any, names: list[list[str]], turn: threading.Lock) -> None:
        """Store a method, and the names of its inputs and its outputs."""
        self._method, (self._inputs, self._outputs), self._turn = method, names, turn

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        given = [torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in self._inputs]
        with self._turn:  # a method has only one memory for its tensors
            found = self._method.execute(given)
            return {name: value.numpy().copy() for name, value in zip(self._outputs, found, strict=True)}


def open_file(folder: str, shape: Json) -> Any:
    """Return the method ``forward`` of a shape's file.

    Raises:
        ValueError: The file is missing, or is not of ExecuTorch.
    """
    path = compiled.require_file(folder, shape, ENDING)
    try:
        return Runtime.get().load_program(path, verification=Verification.InternalConsistency).load_method("forward")
    except RuntimeError as error:
        raise ValueError(f"{path.name} cannot be opened: {str(error).strip()[:300]}") from error
