"""Torch-TensorRT's adaptor: engines of an exported program, without ONNX. Unverified: it did not run on a GPU yet."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

TOOLCHAIN = Toolchain(
    name="torch_tensorrt",
    title="Torch-TensorRT",
    folder=Path(__file__).resolve().parent,
    verification=Verification.UNVERIFIED,
    modules=("torch_tensorrt",),
    runs=frozenset({"torch-tensorrt"}),
    native=frozenset({"torch-tensorrt"}),  # programs with engines in them, which are machine code
    formats={"torch-tensorrt": ("index.json", "model-*.pt2")},
    limits=Limits(seconds=1800.0, memory_mb=16384),
    uses=("pytorch",),  # what reads programs safely
    lockable=False,
    default=False,  # it is of use on a machine with a GPU only
    note="Needs an NVIDIA GPU; unverified: it could not be had. `torch-tensorrt` 2.13 needs TensorRT 11.0, whose "
    "libraries are on NVIDIA's index only: install it from there, and name the interpreter in the recipe.",
)


class EngineOptions(Options):
    """Options of ``torch_tensorrt.engine``."""

    level: int = Field(default=3, ge=0, le=5)
    """The builder's optimization level: higher ones try more kernels, and take longer to build."""
    sparse: bool = False
    """Whether kernels for 2:4 sparsity are tried, where weights have two zeros in each four."""
    tf32: bool = True
    """Whether products of fp32 may round their factors to ten bits of mantissa."""
    workspace_mb: int = Field(default=4096, ge=1)
    """How much of the GPU's memory a kernel may use as scratch space, in MiB."""
    autocast: Literal["fp16", "bf16"] | None = None
    """A type to which operators are cast but those that Torch-TensorRT takes for sensitive; by default none is."""
    least: int = Field(default=5, ge=1)
    """How many operators in a row are worth an engine; fewer are left to PyTorch."""
    whole: bool = False
    """Whether a program is refused of which an operator is left to PyTorch."""


ADAPTORS = (
    Adaptor(
        name="torch_tensorrt.engine",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.COMPILE,
        accepts=frozenset({"pytorch"}),
        produces="torch-tensorrt",
        summary="Builds engines for this GPU from an exported program, one program for each shape; what TensorRT does "
        "not take stays in PyTorch. Unverified on a GPU.",
        options=EngineOptions,
        precisions=frozenset({Precision.FP32, Precision.FP16, Precision.BF16}),
        needs=frozenset({Need.GPU}),
        supports={
            Capability.DYNAMIC_BATCH: Support.NOT_IMPLEMENTED,  # one program for each shape
            Capability.CONTROL_FLOW: Support.UNKNOWN,
            Capability.DETERMINISTIC: Support.UNSUPPORTED,  # kernels are chosen by their times
        },
        machine_specific=True,
        device="cuda:0",
    ),
)
