"""NVIDIA Model Optimizer: write int8 and fp16 into ONNX graphs, on the CPU."""

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
    from . import precisions  # slow to import

    return precisions.transform(job)
