"""ONNX Runtime: optimize, quantize and run ONNX models.

Every function raises ValueError where the file cannot be read, or its external data is outside its folder.
"""

from __future__ import annotations

from typing import Any

from . import session

load = session.open_session


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.onnx`` into the job's output as its adaptor requires, and return notes."""
    if job["adaptor"] == "onnxruntime.session":
        return session.save_rewritten(job)
    if job["adaptor"] == "onnxruntime.fused":
        from . import fusing

        return fusing.transform(job)
    from . import quantization  # slow to import

    return quantization.transform(job)


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return what ``graphs.describe`` finds in ``model.onnx``."""
    from . import graphs  # a session does without onnx

    return graphs.describe(job)
