"""ONNX Runtime's adaptors for NVIDIA GPUs: for CUDA, which ran on an H100 and an H200, and for TensorRT, unverified."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import Limits, RunOptions, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage


class GpuRunOptions(RunOptions):
    """The options of a session; none of them opens a library or writes a file."""

    provider: Literal["cuda", "tensorrt"] = "cuda"
    """The provider: ONNX Runtime's own CUDA kernels, or engines that TensorRT builds when the session is opened."""
    tf32: bool = True
    """Whether CUDA's products of fp32 may round their factors to ten bits of mantissa (TF32)."""
    graphs: bool = False
    """Whether the calls of each shape are captured as a CUDA graph and replayed."""


TOOLCHAIN = Toolchain(
    name="onnxruntime_gpu",
    title="ONNX Runtime on GPUs",
    folder=Path(__file__).resolve().parent,
    verification=Verification.BY_HAND,
    modules=("onnxruntime",),
    with_cuda=True,
    runs=frozenset({"onnx"}),
    data=frozenset({"onnx"}),
    reads=frozenset({"cache", "compiled_shapes", "crashes", "graphs"}),
    environment={"ORT_DISABLE_TELEMETRY": "1"},
    limits=Limits(seconds=1200.0, memory_mb=16384),
    run_options=GpuRunOptions,
    uses=("onnxruntime",),
    runtime_requirements=("onnxruntime-gpu[cuda,cudnn]>=1.31,<2",),
    default=False,  # useful only on a machine with a GPU
    note="Needs an NVIDIA GPU. CUDA was tried on an H100 and an H200; TensorRT is unverified. The environment brings "
    "CUDA and cuDNN, 2.3 GB; the libraries of TensorRT 10 are not in it, and have to be on `LD_LIBRARY_PATH` for "
    "`onnxruntime_gpu.tensorrt`.",
)


class CudaOptions(Options):
    """Options of ``onnxruntime_gpu.cuda``."""

    tf32: bool = True
    """Whether products of fp32 may round their factors to ten bits of mantissa (TF32), which is faster since Ampere."""
    graphs: bool = True
    """Whether the calls of each shape are captured as a CUDA graph and replayed, which starts all kernels at once:
    small models are faster. If a model cannot be captured, for example with a loop, it is not; see the artifact's
    ``graphs``."""


_adaptor = partial(
    Adaptor,
    version=1,
    toolchain=TOOLCHAIN,
    stage=Stage.COMPILE,
    accepts=frozenset({"onnx"}),
    produces="onnx",
    needs=frozenset({Need.GPU}),
    precisions=frozenset({Precision.FP32, Precision.FP16, Precision.INT8}),
    supports={
        Capability.DYNAMIC_BATCH: Support.FULL,
        Capability.EXTERNAL_DATA: Support.FULL,
        Capability.CONTROL_FLOW: Support.UNKNOWN,
        Capability.DETERMINISTIC: Support.UNKNOWN,
    },
    machine_specific=True,
    device="cuda:0",
)

ADAPTORS = (
    _adaptor(
        name="onnxruntime_gpu.cuda",
        summary="Runs a model on an NVIDIA GPU with ONNX Runtime's kernels; refused where operators fall back to the "
        "CPU.",
        options=CudaOptions,
        run_options=lambda options: {"provider": "cuda", **options.model_dump()},
    ),
    _adaptor(
        name="onnxruntime_gpu.tensorrt",
        summary="Runs a model on an NVIDIA GPU in engines of TensorRT 10, what it does not take in ONNX Runtime's "
        "kernels; refused where operators fall back to the CPU. Unverified on a GPU.",
        run_options=lambda _: {"provider": "tensorrt"},
    ),
)
