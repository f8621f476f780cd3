"""ExecuTorch's adaptors: an exported program of PyTorch for XNNPACK's kernels, in fp32 and in int8."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

TOOLCHAIN = Toolchain(
    name="executorch",
    title="ExecuTorch",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("executorch",),
    with_torch=True,
    from_source=("antlr4-python3-runtime",),
    runs=frozenset({"executorch"}),
    data=frozenset({"executorch"}),
    formats={"executorch": ("index.json", "model-*.pte")},
    limits=Limits(seconds=900.0),
    extra="executorch",
    runtime_requirements=("executorch>=1.5.1,<1.6",),
    uses=("pytorch",),  # its module reads programs safely
    default=False,  # its environment is large
    note="Compiles PyTorch for devices; its environment takes about 1.5 GB.",
)


class Int8Options(Options):
    """Options of ``executorch.xnnpack-int8``."""

    samples: int = Field(default=256, ge=1)
    """The largest number of calibration rows."""


_compiler = partial(
    Adaptor,
    version=1,
    toolchain=TOOLCHAIN,
    stage=Stage.COMPILE,
    accepts=frozenset({"pytorch"}),
    produces="executorch",
    supports={
        Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,  # one file for each shape
        Capability.CONTROL_FLOW: Support.UNKNOWN,
        Capability.DETERMINISTIC: Support.FULL,
    },
)

ADAPTORS = (
    _compiler(
        name="executorch.xnnpack",
        summary="Compiles an exported program for XNNPACK's kernels in fp32, with one file for each shape.",
        precisions=frozenset({Precision.FP32}),
    ),
    _compiler(
        name="executorch.xnnpack-int8",
        summary="Quantizes an exported program by PT2E, weights by channel, and compiles it for XNNPACK's kernels.",
        options=Int8Options,
        precisions=frozenset({Precision.INT8}),
        needs=frozenset({Need.CALIBRATION_DATA}),
    ),
)
