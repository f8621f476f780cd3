"""NVIDIA Model Optimizer: write int8 and fp16 into ONNX graphs, on the CPU."""

from __future__ import annotations

from typing import Any

import hone_onnxruntime

describe = hone_onnxruntime.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.onnx`` into the job's output, and return notes."""
    from . import precisions  # slow to import

    return precisions.transform(job)
