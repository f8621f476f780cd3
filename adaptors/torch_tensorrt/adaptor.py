"""Torch-TensorRT's adaptor: engines of an exported program, without ONNX. Unverified: it has not run on a GPU yet."""

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
    native=frozenset({"torch-tensorrt"}),  # programs that contain engines, which are machine code
    formats={"torch-tensorrt": ("index.json", "model-*.pt2")},
    limits=Limits(seconds=1800.0, memory_mb=16384),
    uses=("pytorch",),  # its module reads programs safely
    lockable=False,
    default=False,  # useful only on a machine with a GPU
    note="Needs an NVIDIA GPU; unverified: it could not be had. `torch-tensorrt` 2.13 needs TensorRT 11.0, whose "
    "libraries are on NVIDIA's index only: install it from there, and name the interpreter in the recipe.",
)


class EngineOptions(Options):
    """Options of ``torch_tensorrt.engine``."""

    level: int = Field(default=3, ge=0, le=5)
    """The builder's optimization level: higher ones try more kernels, and take longer to build."""
    sparse: bool = False
    """Whether to try kernels for 2:4 sparsity, for weights with two zeros in each group of four."""
    tf32: bool = True
    """Whether products of fp32 may round their factors to ten bits of mantissa (TF32)."""
    workspace_mb: int = Field(default=4096, ge=1)
    """The limit of GPU memory that a kernel may use as scratch space, in MiB."""
    autocast: Literal["fp16", "bf16"] | None = None
    """The type to which operators are cast, except those that Torch-TensorRT considers sensitive; None: no cast."""
    least: int = Field(default=5, ge=1)
    """The smallest number of consecutive operators for an engine; shorter sequences are run by PyTorch."""
    whole: bool = False
    """Whether to refuse a program if PyTorch runs any of its operators."""


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
            Capability.DETERMINISTIC: Support.UNSUPPORTED,  # kernels are selected by their measured times
        },
        machine_specific=True,
        device="cuda:0",
    ),
)
