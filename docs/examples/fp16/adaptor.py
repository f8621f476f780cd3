"""Half-precision weights for ONNX models: the example of docs/write-an-adaptor.md."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Options, Support
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Precision, Stage

TOOLCHAIN = Toolchain(name="fp16", folder=Path(__file__).resolve().parent)


class WeightsOptions(Options):
    """Options of ``fp16.weights``.

    Attributes:
        smallest: Tensors with fewer elements are not changed.
    """

    smallest: int = Field(default=256, ge=1)


WEIGHTS = Adaptor(
    name="fp16.weights",
    version=1,
    toolchain=TOOLCHAIN,
    stage=Stage.COMPRESS,
    accepts=frozenset({"onnx"}),
    produces="onnx",
    summary="Stores large fp32 weights in half precision; the arithmetic stays as it was.",
    options=WeightsOptions,
    precisions=frozenset({Precision.FP16}),
    supports={Capability.DYNAMIC_BATCH: Support.FULL, Capability.DETERMINISTIC: Support.FULL},
)

ADAPTORS = (WEIGHTS,)
