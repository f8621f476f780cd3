"""NVIDIA Model Optimizer on ONNX graphs: int8 as pairs of operators, and fp16, placed as TensorRT fuses them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

TOOLCHAIN = Toolchain(
    name="modelopt",
    title="Model Optimizer",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("modelopt",),
    with_torch=True,
    with_cuda=True,
    uses=("onnxruntime",),
    limits=Limits(seconds=900.0),
    default=False,  # its results are faster on GPUs only
    note="Writes ONNX for `tensorrt` and `onnxruntime_gpu`, and works without a GPU; on CPUs its graphs are slower "
    "than fp32. Its environment takes about 1.4 GB.",
)


class _CalibratedOptions(Options):
    samples: int = Field(default=256, ge=1)
    """The largest number of calibration rows."""
    exclude: tuple[str, ...] = ()
    """Names of nodes to leave unchanged."""


class Int8Options(_CalibratedOptions):
    """Options of ``modelopt.int8``."""

    calibration: Literal["entropy", "max"] = "entropy"
    """How the ranges of activations are computed from the calibration data."""
    rest: Literal["fp32", "fp16"] = "fp32"
    """The type in which operators compute that are not quantized; inputs and outputs retain their types."""


class HalfOptions(_CalibratedOptions):
    """Options of ``modelopt.fp16``."""

    largest: float = Field(default=512.0, gt=0)
    """Operators whose inputs or outputs have a larger magnitude on the calibration data stay in fp32."""


_adaptor = partial(
    Adaptor,
    version=1,
    toolchain=TOOLCHAIN,
    stage=Stage.COMPRESS,
    accepts=frozenset({"onnx"}),
    produces="onnx",
    needs=frozenset({Need.CALIBRATION_DATA}),
    supports={
        Capability.DYNAMIC_BATCH: Support.FULL,
        Capability.EXTERNAL_DATA: Support.NOT_IMPLEMENTED,
        Capability.CONTROL_FLOW: Support.UNKNOWN,
        Capability.DETERMINISTIC: Support.FULL,
    },
)

ADAPTORS = (
    _adaptor(
        name="modelopt.int8",
        summary="Quantizes weights and activations to int8 (QDQ) with ranges from calibration data, placed as TensorRT "
        "fuses them.",
        options=Int8Options,
        precisions=frozenset({Precision.INT8}),
    ),
    _adaptor(
        name="modelopt.fp16",
        summary="Casts operators to fp16 (AutoCast) but those whose values are too large on the calibration data; "
        "inputs and outputs keep their types.",
        options=HalfOptions,
        precisions=frozenset({Precision.FP16}),
    ),
)
