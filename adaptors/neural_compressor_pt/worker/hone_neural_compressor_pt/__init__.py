"""neural-compressor 3: quantize exported programs of PyTorch, and language models of Transformers."""

from __future__ import annotations

from typing import Any

import hone_pytorch

describe = hone_pytorch.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write the quantized ``model.pt2`` or ``model.onnx`` into the job's output, and return notes."""
    if job["adaptor"] == "neural_compressor_pt.int4-gptq":
        from . import weights

        return weights.transform(job)
    from . import quantization  # both are slow to import

    return quantization.transform(job)
