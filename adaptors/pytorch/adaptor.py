"""PyTorch's adaptors: export to the PyTorch and ONNX backends, int8 by PT2E, and PyTorch's own compilers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Int8Options, Need, Options, Place, Support
from hone_runtime.contract.toolchain import Limits, RunOptions, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

_Mode = Literal["default", "max-autotune-no-cudagraphs"]


class CompileRunOptions(RunOptions):
    """Arguments of ``torch.compile`` at each start; without ``compile`` it is not called."""

    compile: bool = False
    mode: _Mode = "default"
    dynamic: bool | None = None


TOOLCHAIN = Toolchain(
    name="pytorch",
    title="PyTorch",
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    modules=("torch", "torchao", "torchvision", "onnxscript"),
    runs=frozenset({"pytorch", "pytorch-module", "torchscript-module", "transformers", "torchscript", "aot-inductor"}),
    native=frozenset({"torchscript", "torchscript-module", "aot-inductor"}),
    formats={"torchscript-module": ("model.pt",)},  # an author's file; the adaptors' own format is `torchscript`
    generated=frozenset({"pytorch"}),  # torch.export.load writes Python from the graph, and executes it
    data=frozenset({"transformers"}),  # the host refuses models with code or a pickle
    reads=frozenset({"transformers"}),
    environment={
        "AOTI_RUNTIME_CHECK_INPUTS": "1",  # otherwise static packages return wrong outputs for other batch sizes
        "TORCHAO_FORCE_SKIP_LOADING_SO_FILES": "1",
        # Compiled headers are deleted with the job. Each start of torch.compile needed 9 s of CPU for them, and saved
        # nothing.
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    },
    limits=Limits(seconds=900.0),
    run_options=CompileRunOptions,
    extra="torch",
    runtime_requirements=("torch>=2.13,<2.14",),
)

_MODULE = frozenset({"pytorch-module"})
_TRANSFORMERS = frozenset({"transformers"})
_CLASS = _MODULE | _TRANSFORMERS
_PROGRAM = frozenset({"pytorch"})
_SCRIPT = frozenset({"torchscript-module"})
_SUPPORTS = {
    Capability.DYNAMIC_BATCH: Support.FULL,
    Capability.CONTROL_FLOW: Support.NOT_IMPLEMENTED,
    Capability.DETERMINISTIC: Support.FULL,
}


class OnnxOptions(Options):
    """Options of ``pytorch.onnx``."""

    opset: int = Field(default=20, ge=17, le=24)
    """The requested version of ONNX's operators; the version that was written is in the artifact's metadata."""


class ScriptedOptions(Options):
    """Options of ``pytorch.onnx-scripted``."""

    opset: int = Field(default=17, ge=14, le=20)
    """The version of ONNX's operators."""


class TracedOptions(Options):
    """Options of ``pytorch.onnx-traced``."""

    opset: int = Field(default=17, ge=14, le=20)
    """The version of ONNX's operators."""
    cache: bool = True
    """Whether a causal language model's graph gets a cache of keys and values, which only ONNX Runtime supports."""


class CompileOptions(Options):
    """Options of ``pytorch.compile`` and ``pytorch.compile-exported``."""

    mode: _Mode = "default"
    """The mode of ``torch.compile``."""
    dynamic: bool | None = None
    """Whether sizes are compiled as variables; by default PyTorch decides this when it sees a second size."""


class Pt2eOptions(Int8Options):
    """Options of ``pytorch.pt2e-int8``."""

    samples: int = Field(default=256, ge=1)
    """The largest number of calibration rows."""


_adaptor = partial(Adaptor, version=1, toolchain=TOOLCHAIN, supports=_SUPPORTS)
_at_each_start = partial(
    _adaptor,
    stage=Stage.COMPILE,
    options=CompileOptions,
    needs=frozenset({Need.CXX_COMPILER}),
    # No result of torch.compile can be saved.
    run_options=lambda options: {"compile": True, **options.model_dump(mode="json")},
)
_ahead_of_time = partial(
    _adaptor,
    stage=Stage.COMPILE,
    accepts=_PROGRAM,
    produces="aot-inductor",
    needs=frozenset({Need.CXX_COMPILER}),
    supports={
        **_SUPPORTS,
        Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,
        Capability.DETERMINISTIC: Support.NOT_IMPLEMENTED,  # a package contains the paths of its compilation
    },
    machine_specific=True,
)

ADAPTORS = (
    _adaptor(
        name="pytorch.export",
        stage=Stage.CONVERT,
        accepts=_CLASS,
        produces="pytorch",
        summary="Exports the author's class, or that of Transformers, with torch.export, its dynamic sizes kept.",
    ),
    _adaptor(
        name="pytorch.onnx",
        stage=Stage.CONVERT,
        accepts=_PROGRAM,
        produces="onnx",
        summary="Writes an exported program as ONNX; one that PT2E quantized becomes a QDQ model.",
        options=OnnxOptions,
        supports={**_SUPPORTS, Capability.EXTERNAL_DATA: Support.FULL},
    ),
    _adaptor(
        name="pytorch.onnx-scripted",
        stage=Stage.CONVERT,
        accepts=_SCRIPT,
        produces="onnx",
        summary="Writes its author's TorchScript as ONNX, with loops and branches where it was scripted.",
        options=ScriptedOptions,
        supports={**_SUPPORTS, Capability.EXTERNAL_DATA: Support.FULL, Capability.CONTROL_FLOW: Support.FULL},
    ),
    _adaptor(
        name="pytorch.onnx-traced",
        version=2,  # adds a cache
        stage=Stage.CONVERT,
        accepts=_TRANSFORMERS,
        produces="onnx",
        summary="Traces a model of Transformers with plain attention into ONNX, whose patterns optimizers know; "
        "causal language models with their cache of keys and values.",
        options=TracedOptions,
        supports={
            **_SUPPORTS,
            Capability.EXTERNAL_DATA: Support.FULL,
            Capability.CONTROL_FLOW: Support.UNSUPPORTED,
        },
        alternative=True,
    ),
    _adaptor(
        name="pytorch.openvino-ir",
        stage=Stage.CONVERT,
        accepts=_TRANSFORMERS,
        produces="openvino-ir",
        summary="Converts a model of Transformers to OpenVINO's IR without ONNX in between; "
        "causal language models with their cache of keys and values.",
        supports={
            **_SUPPORTS,
            Capability.EXTERNAL_DATA: Support.FULL,
            Capability.CONTROL_FLOW: Support.UNSUPPORTED,
        },
        alternative=True,
    ),
    _adaptor(
        name="pytorch.trace",
        stage=Stage.CONVERT,
        accepts=_PROGRAM,
        produces="torchscript",
        summary="Traces an exported program into TorchScript for compilers that take it, such as that of `bladedisc`.",
        supports={**_SUPPORTS, Capability.CONTROL_FLOW: Support.UNSUPPORTED},
    ),
    _adaptor(
        name="pytorch.pt2e-int8",
        place=Place.QUANTIZE,
        stage=Stage.COMPRESS,
        accepts=_PROGRAM,
        produces="pytorch",
        summary="Quantizes weights and activations to int8 with PT2E; "
        "fast once AOTInductor or ONNX Runtime compiles it.",
        options=Pt2eOptions,
        precisions=frozenset({Precision.INT8}),
        needs=frozenset({Need.CALIBRATION_DATA}),
    ),
    _adaptor(
        name="pytorch.torchscript",
        stage=Stage.COMPILE,
        accepts=_CLASS | _PROGRAM,
        produces="torchscript",
        summary="Traces the model into frozen TorchScript, which needs no class to run.",
        supports={**_SUPPORTS, Capability.CONTROL_FLOW: Support.UNSUPPORTED},
    ),
    _adaptor(
        name="pytorch.freeze",
        stage=Stage.COMPILE,
        accepts=_SCRIPT,
        produces="torchscript",
        summary="Freezes its author's own TorchScript: weights become constants, and branches that they decide go.",
        supports={**_SUPPORTS, Capability.CONTROL_FLOW: Support.FULL},
    ),
    _at_each_start(
        name="pytorch.compile",
        accepts=_MODULE,
        produces="pytorch-module",
        summary="Runs the author's class under torch.compile, which compiles at each start.",
        supports={**_SUPPORTS, Capability.CONTROL_FLOW: Support.FULL},
    ),
    _at_each_start(
        name="pytorch.compile-exported",
        accepts=_PROGRAM,
        produces="pytorch",
        summary="Runs an exported program under torch.compile, which compiles at each start.",
    ),
    _ahead_of_time(
        name="pytorch.aoti",
        summary="Compiles ahead of time with AOTInductor and folded constants, one package for each shape.",
    ),
    _ahead_of_time(
        name="pytorch.aoti-bf16",
        summary="As pytorch.aoti, computing in bfloat16 between inputs and outputs of the model's own types.",
        precisions=frozenset({Precision.BF16}),
        needs=frozenset({Need.CXX_COMPILER, Need.AVX512_BF16}),
    ),
)
