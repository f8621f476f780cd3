"""TensorRT's adaptor: an engine of a strongly typed network. Unverified: it has not run on a GPU yet."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

TOOLCHAIN = Toolchain(
    name="tensorrt",
    title="TensorRT",
    folder=Path(__file__).resolve().parent,
    verification=Verification.UNVERIFIED,
    modules=("tensorrt",),
    with_cuda=True,
    runs=frozenset({"tensorrt-engine"}),
    native=frozenset({"tensorrt-engine"}),
    formats={"tensorrt-engine": ("model.plan", "index.json")},
    limits=Limits(seconds=1800.0, memory_mb=16384),
    runtime_requirements=("tensorrt-cu13-bindings>=11.4,<12", "cuda-bindings>=13,<14", "numpy>=2,<3"),
    default=False,  # useful only on a machine with a GPU
    note="Needs an NVIDIA GPU; unverified: its libraries could not be had. Its environment has the bindings of "
    "TensorRT 11; the libraries, of several GB, are on no public index, and have to be on `LD_LIBRARY_PATH`.",
)


class EngineOptions(Options):
    """Options of ``tensorrt.engine``. The precision is the graph's: ``modelopt`` writes others into it."""

    level: int = Field(default=3, ge=0, le=5)
    """The builder's optimization level: higher ones try more kernels, and take longer to build."""
    sparse: bool = False
    """Whether to try kernels for 2:4 sparsity, for weights with two zeros in each group of four."""
    tf32: bool = True
    """Whether products of fp32 may round their factors to ten bits of mantissa (TF32)."""
    workspace_mb: int = Field(default=4096, ge=1)
    """The limit of GPU memory that a kernel may use as scratch space, in MiB."""
    timing_cache: Path | None = None
    """The ``timing.cache`` next to an earlier engine for the same GPU and version: its kernels are not timed again."""


ADAPTORS = (
    Adaptor(
        name="tensorrt.engine",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.COMPILE,
        accepts=frozenset({"onnx"}),
        produces="tensorrt-engine",
        summary="Builds an engine for this GPU, at the graph's own precisions, with a profile for each of the recipe's "
        "shapes. Unverified on a GPU.",
        options=EngineOptions,
        precisions=frozenset({Precision.FP32, Precision.FP16, Precision.INT8}),
        needs=frozenset({Need.GPU}),
        supports={
            Capability.DYNAMIC_BATCH: Support.NOT_IMPLEMENTED,  # one profile for each shape
            Capability.EXTERNAL_DATA: Support.FULL,
            Capability.CONTROL_FLOW: Support.UNKNOWN,
            Capability.DETERMINISTIC: Support.UNSUPPORTED,  # kernels are selected by their measured times
        },
        machine_specific=True,
        device="cuda:0",
    ),
)
