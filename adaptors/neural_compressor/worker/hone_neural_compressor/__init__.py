"""neural-compressor 2.6: quantize ONNX graphs to int8, tuned over the program's metric or after SmoothQuant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hone_runtime.worker.loading import load_worker

_ONNX = load_worker(
    "hone_part_onnxruntime", str(Path(__file__).resolve().parents[2] / "onnxruntime/worker/__init__.py")
)

describe = _ONNX.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.onnx`` into the job's output, and return notes."""
    from . import quantization  # slow to import

    return quantization.transform(job)
