"""neural-compressor 2.6: quantize ONNX graphs to int8, tuned over the recipe's metric or after SmoothQuant."""

from __future__ import annotations

from typing import Any

import hone_onnxruntime

describe = hone_onnxruntime.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.onnx`` into the job's output, and return notes."""
    from . import quantization  # slow to import

    return quantization.transform(job)
