"""neural-compressor 3: quantize exported programs of PyTorch, and language models of Transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hone_runtime.worker.loading import load_worker

_PYTORCH = load_worker("hone_part_pytorch", str(Path(__file__).resolve().parents[2] / "pytorch/worker/__init__.py"))

describe = _PYTORCH.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write the quantized ``model.pt2`` or ``model.onnx`` into the job's output, and return notes."""
    if job["adaptor"] == "neural_compressor_pt.int4-gptq":
        from . import weights

        return weights.transform(job)
    from . import quantization  # both are slow to import

    return quantization.transform(job)
