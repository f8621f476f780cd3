"""ONNX Runtime: optimize, quantize and run ONNX models.

Run by path with the python of the toolchain's environment; imports the standard library, numpy and the toolchain only.
Every function raises ValueError where the file cannot be read, or its external data is outside its folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.onnx`` into the job's output as its adaptor requires, and return notes."""
    if job["adaptor"] == "onnxruntime.session":
        from . import session

        return session.save_rewritten(job)
    from . import quantization  # slow to import

    return quantization.transform(job)


def describe(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the inputs, the outputs and the digest of the graph of ``model.onnx``; None for another format.

    A model that is not taken gives ``refused`` with the reason, and ``slug`` where its external data is located outside
    its folder.
    """
    if job["input"]["format"] != "onnx":
        return None
    from . import graphs

    return graphs.describe(Path(job["input"]["path"]))


def load(job: dict[str, Any]) -> Any:
    """Open ``model.onnx``; the run option ``graph_optimization`` says how much of its graph is rewritten now."""
    from . import session

    return session.open_session(job)
