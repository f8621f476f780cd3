"""IREE's adaptor: ONNX in fp32, compiled for this CPU."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from hone_runtime.contract.adaptor import Adaptor, Capability, Options, Support
from hone_runtime.contract.toolchain import Toolchain, Verification
from hone_runtime.values.artifact import Stage

TOOLCHAIN = Toolchain(
    name="iree",
    title="IREE",
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    modules=("iree",),
    runs=frozenset({"iree-vmfb"}),
    native=frozenset({"iree-vmfb"}),
    runtime_requirements=("iree-base-runtime>=3.13,<3.14", "numpy>=2,<3"),
    default=False,  # it needs its own environment, and is rarely the fastest on a CPU
    note="Compiles fp32 models for this CPU in seconds; its environment takes about 600 MB.",
)


class CpuOptions(Options):
    """Options of ``iree.cpu``. The first two change the speed several-fold, in either direction."""

    data_tiling: bool = True
    """Whether matrices are packed into tiles."""
    im2col: bool = True
    """Whether convolutions become matrix multiplications."""
    level: int = Field(default=3, ge=0, le=3)
    """The optimization level."""
    stack_bytes: int = Field(default=262_144, ge=32_768)
    """The stack limit of one dispatch in bytes, a power of two; LayerNormalization needs more than IREE's 32 KiB."""

    @field_validator("stack_bytes")
    @classmethod
    def _be_power_of_two(cls, value: int) -> int:
        if value.bit_count() != 1:
            raise ValueError(
                f"must be a power of two, such as {1 << value.bit_length()}: IREE's compiler takes no other"
            )
        return value


ADAPTORS = (
    Adaptor(
        name="iree.cpu",
        version=2,  # models are normalized first
        toolchain=TOOLCHAIN,
        stage=Stage.COMPILE,
        accepts=frozenset({"onnx"}),
        produces="iree-vmfb",
        summary="Compiles a model in fp32 for this CPU with IREE and runs it on IREE's own runtime.",
        options=CpuOptions,
        supports={
            Capability.DYNAMIC_BATCH: Support.FULL,
            Capability.EXTERNAL_DATA: Support.FULL,
            Capability.CONTROL_FLOW: Support.UNKNOWN,
            Capability.DETERMINISTIC: Support.FULL,
        },
        machine_specific=True,
    ),
)
