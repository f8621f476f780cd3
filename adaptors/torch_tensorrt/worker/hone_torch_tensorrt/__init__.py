"""Torch-TensorRT's own code: compile exported programs, describe the written files, and run them."""

from __future__ import annotations

from typing import Any

from hone_runtime.sessions import compiled

from . import session

Json = dict[str, Any]

load = session.open_model


def transform(job: Json) -> Json:
    """Write a program for each of the recipe's shapes, and return notes."""
    from . import compilation

    return compilation.transform(job)


def describe(job: Json) -> Json:
    """Return the specs of the written files; each program is opened.

    Raises:
        KeyError: It is of another format.
        ValueError: The index or a program cannot be read, or there is no GPU.
    """
    artifact = job["input"]
    if artifact["format"] != "torch-tensorrt":
        raise KeyError(artifact["format"])
    for shape in artifact["static_shapes"]:
        session.open_program(artifact["path"], shape)
    return dict(compiled.read_index(artifact["path"]))


def probe(_: Json) -> Json:
    """Return what this machine ``lacks`` to build an engine: a GPU, or TensorRT's libraries."""
    from . import library

    try:
        library.require_gpu()
        library.torch_tensorrt()
    except ValueError as error:
        return {"lacks": str(error)}
    return {}
