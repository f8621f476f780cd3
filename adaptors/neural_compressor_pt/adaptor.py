"""neural-compressor 3 for PyTorch: static int8 of exported programs, and GPTQ of language models."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Int8Options, Need, Options, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

TOOLCHAIN = Toolchain(
    name="neural_compressor_pt",
    title="neural-compressor for PyTorch",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("neural_compressor",),
    with_torch=True,
    environment={
        "LOGLEVEL": "WARNING",  # otherwise it logs each step
        "TORCHAO_FORCE_SKIP_LOADING_SO_FILES": "1",  # its kernels are for CUDA
    },
    limits=Limits(seconds=1800.0),
    uses=("pytorch",),  # its module reads programs safely
    default=False,  # its environment is large
    note="Quantizes PyTorch for `pytorch` and `onnxruntime`, which a recipe selects with it; its environment takes "
    "about 1.3 GB. Its dynamic quantization is silently wrong and is not offered, nor is what gains nothing on a CPU: "
    "the toolchain's `capabilities.yml` says why of each.",
)


class StaticOptions(Int8Options):
    """Options of ``neural_compressor_pt.int8-static``."""

    samples: int = Field(default=256, ge=1)
    """The largest number of calibration rows."""
    ranges: Literal["minmax", "histogram"] = "minmax"
    """How the ranges of activations are computed: by a moving average of each batch's smallest and largest value, or by
    the least squared error over a histogram. neural-compressor calls the latter ``kl``."""


class GptqOptions(Options):
    """Options of ``neural_compressor_pt.int4-gptq``."""

    block_size: Literal[16, 32, 64, 128, 256] = 32
    """How many weights share a scale."""
    symmetric: bool = True
    """Whether each block's integers are symmetric about zero."""
    accuracy_level: int = Field(default=4, ge=0, le=4)
    """The type in which ONNX Runtime computes products: 1 is fp32, 4 is int8, 0 lets the kernel choose."""
    samples: int = Field(default=128, ge=1)
    """The largest number of calibration rows."""
    opset: int = Field(default=17, ge=14, le=20)
    """The version of ONNX's operators."""
    cache: bool = True
    """Whether the graph gets a cache of keys and values."""


ADAPTORS = (
    Adaptor(
        name="neural_compressor_pt.int8-static",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.COMPRESS,
        accepts=frozenset({"pytorch"}),
        produces="pytorch",
        summary="Quantizes weights and activations of an exported program to int8 by PT2E, with ranges from the "
        "calibration data.",
        options=StaticOptions,
        precisions=frozenset({Precision.INT8}),
        needs=frozenset({Need.CALIBRATION_DATA}),
        supports={
            Capability.DYNAMIC_BATCH: Support.FULL,
            Capability.CONTROL_FLOW: Support.NOT_IMPLEMENTED,
            Capability.DETERMINISTIC: Support.FULL,
        },
    ),
    Adaptor(
        name="neural_compressor_pt.int4-gptq",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.CONVERT,
        accepts=frozenset({"transformers"}),
        produces="onnx",
        summary="Quantizes the weights of a causal language model to four bits by GPTQ, and writes them as ONNX for "
        "ONNX Runtime's MatMulNBits.",
        options=GptqOptions,
        precisions=frozenset({Precision.INT4}),
        needs=frozenset({Need.CALIBRATION_DATA}),
        supports={
            Capability.DYNAMIC_BATCH: Support.FULL,
            Capability.EXTERNAL_DATA: Support.FULL,
            Capability.CONTROL_FLOW: Support.UNSUPPORTED,
            Capability.DETERMINISTIC: Support.FULL,
        },
        alternative=True,
    ),
)
