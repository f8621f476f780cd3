"""TensorRT: build engines from ONNX, and run them.

The modules are imported within functions, so that code that needs no GPU works without the bindings.
"""

from __future__ import annotations

from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.plan``, ``index.json`` and ``timing.cache`` into the job's output, and return notes."""
    from . import engine

    return engine.build(job)


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the specs of a saved engine, after comparing them with its tensors."""
    from . import session

    return session.describe(job)


def load(job: dict[str, Any]) -> Any:
    """Open an engine."""
    from . import session

    return session.Session(job)


def probe(_: dict[str, Any]) -> dict[str, Any]:
    """Return what this machine ``lacks`` to build an engine: a GPU, or TensorRT's libraries."""
    from . import library

    try:
        library.require_gpu()
        trt = library.tensorrt()
        trt.Builder(trt.Logger(trt.Logger.WARNING)).create_network(0)
    except ValueError as error:
        return {"lacks": str(error)}
    return {}
