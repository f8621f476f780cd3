"""ONNX Runtime's adaptors: graphs in fp32, optimized or with fused attention, int8 in four ways, and int4 weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Int8Options, Need, Options, Place, Support
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import RunOptions, Toolchain, Verification
from hone_runtime.sessions.streams import MOST_STREAMS
from hone_runtime.values.artifact import Precision, Stage
from hone_runtime.values.base import Json


class SessionRunOptions(RunOptions):
    """The options of a session; none of them opens a library or writes a file."""

    graph_optimization: Literal["disabled", "all"] = "all"
    """How far the graph is optimized when it is opened."""
    streams: int | None = Field(default=None, ge=1, le=MOST_STREAMS)
    """How many calls are computed at once, each with an equal share of the threads."""


TOOLCHAIN = Toolchain(
    name="onnxruntime",
    title="ONNX Runtime",
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    modules=("onnxruntime", "onnx"),
    runs=frozenset({"onnx"}),
    survives_fork=True,
    data=frozenset({"onnx"}),
    reads=frozenset({"cache", "compiled_shapes", "crashes"}),
    environment={"ORT_DISABLE_TELEMETRY": "1"},
    run_options=SessionRunOptions,
    extra="onnxruntime",
    takes_text=True,
    runtime_requirements=("onnxruntime>=1.31,<2",),
)

_SUPPORTS = {
    Capability.DYNAMIC_BATCH: Support.FULL,
    Capability.EXTERNAL_DATA: Support.FULL,
    Capability.CONTROL_FLOW: Support.UNKNOWN,
    Capability.DETERMINISTIC: Support.FULL,
}


class SessionOptions(Options):
    """Options of ``onnxruntime.session``."""

    optimization: Literal["basic", "extended", "layout", "all"] = "all"
    """How far the graph is optimized; ``layout`` and ``all`` choose layouts for this CPU."""
    fixed_shapes: bool = True
    """Whether to open the graph again for each of the recipe's shapes, which avoids planning at each call; other shapes
    run in the dynamic graph. Each copy needs the memory of the weights again, so this is not done above 128 MiB. It is
    also not done for tree ensembles, which need no planning."""
    streams: int | None = Field(default=None, ge=1, le=MOST_STREAMS, exclude_if=lambda value: value is None)
    """How many calls are computed at once, each in a session with an equal share of the threads; with one thread each,
    in one session. None: any number of calls, which share the threads of one session."""


def _make_run_options(options: Options) -> dict[str, Json]:
    """Return the options of a graph that was optimized when it was saved."""
    streams = getattr(options, "streams", None)
    return {"graph_optimization": "disabled", **({} if streams is None else {"streams": streams})}


class FusedOptions(Options):
    """Options of ``onnxruntime.fused``."""

    model_type: str = "auto"
    """The model family whose patterns are fused, such as ``bert``, ``gpt2`` or ``t5``; ``auto`` reads it from the
    model's configuration. BERT's patterns are used if the family is unknown, or if its own patterns match nothing."""


class DynamicOptions(Int8Options):
    """Options of ``onnxruntime.int8-dynamic``."""

    per_channel: bool = True
    """Whether to use one scale for each output channel instead of one for each weight."""
    exclude: tuple[str, ...] = ()
    """Names of nodes to leave unchanged."""


class FusedInt8Options(DynamicOptions, FusedOptions):
    """Options of ``onnxruntime.int8-fused``."""


class StaticOptions(DynamicOptions):
    """Options of ``onnxruntime.int8-static``."""

    activations: Literal["int8", "uint8"] | None = None
    """The activations' type; weights are always int8. None: uint8 on x86, int8 elsewhere. On a Xeon with VNNI, networks
    with int8 took up to 4.8 times as long; x86 with AVX2 only was not measured."""
    calibration: Literal["minmax", "entropy", "percentile"] = "minmax"
    """How the ranges of activations are computed from the calibration data."""
    operators: tuple[str, ...] = ()
    """Operator types to quantize; empty means all that ONNX Runtime can quantize."""

    def resolve(self, host: Host) -> Self:
        """Return the options with ``activations`` resolved, and the options of every quantizer."""
        unsigned = "uint8" if host.multiplies_unsigned else "int8"
        return super().resolve(host).model_copy(update={"activations": self.activations or unsigned})


class TunedOptions(StaticOptions):
    """Options of ``onnxruntime.int8-tuned``."""

    scheme: Literal["auto", "static", "dynamic"] = "auto"
    """How activations are quantized: with ranges from calibration data, or at run time. ``auto``: at run time for
    transformers, whose matrix products were slower than fp32 with static ranges."""
    strategy: Literal["sensitivity", "basic", "exhaustive"] = "sensitivity"
    """How operators are chosen. ``sensitivity``: those with the least divergence for the time that they take, by
    bisection. ``basic``: all, without the operators of the largest divergence, one by one. ``exhaustive``: every
    subset, of a few operators only."""
    evaluations: int = Field(default=15, ge=2)
    """The most candidates that are validated with the recipe's metrics."""


class WeightsOptions(Options):
    """Options of ``onnxruntime.int4-weights``."""

    block_size: Literal[16, 32, 64, 128, 256] = 32
    """How many weights share a scale."""
    symmetric: bool = True
    """Whether to quantize without a zero point for each block."""
    accuracy_level: int = Field(default=4, ge=0, le=4)
    """The type in which products are computed: 1 is fp32, 4 is int8, 0 lets the kernel choose."""
    exclude: tuple[str, ...] = ()
    """Names of nodes to leave unchanged."""


_adaptor = partial(Adaptor, version=1, toolchain=TOOLCHAIN, accepts=frozenset({"onnx"}), produces="onnx")
_quantizer = partial(_adaptor, stage=Stage.COMPRESS, supports=_SUPPORTS)

ADAPTORS = (
    _adaptor(
        name="onnxruntime.session",
        version=4,
        stage=Stage.COMPILE,
        summary="Rewrites the graph for this CPU ahead of time and runs it in ONNX Runtime, "
        "at the model's own precision.",
        options=SessionOptions,
        supports={**_SUPPORTS, Capability.CONTROL_FLOW: Support.FULL},
        machine_specific=True,
        run_options=_make_run_options,
        throughput=lambda clients: {"streams": [clients]},
    ),
    _quantizer(
        name="onnxruntime.fused",
        version=2,
        summary="Fuses each attention of a transformer, its embeddings and its norms to one operator, in fp32.",
        options=FusedOptions,
        default=False,  # no faster than ONNX Runtime's own fusions: docs/reference/figures.md, "fused attention"
    ),
    _quantizer(
        name="onnxruntime.int8-dynamic",
        place=Place.QUANTIZE,
        version=2,  # also fused attention
        summary="Quantizes the weights of MatMul and Gemm to int8 and their activations at run time; needs no data.",
        options=DynamicOptions,
        precisions=frozenset({Precision.INT8}),
    ),
    _quantizer(
        name="onnxruntime.int8-fused",
        version=2,
        summary="Fuses a transformer's attention, then quantizes it, MatMul and Gemm to int8, activations at run time.",
        options=FusedInt8Options,
        precisions=frozenset({Precision.INT8}),
    ),
    _quantizer(
        name="onnxruntime.int8-static",
        place=Place.QUANTIZE,
        summary="Quantizes weights and activations to int8 (QDQ) with ranges from calibration data; "
        "best for conv nets.",
        options=StaticOptions,
        precisions=frozenset({Precision.INT8}),
        needs=frozenset({Need.CALIBRATION_DATA}),
    ),
    _quantizer(
        name="onnxruntime.int8-tuned",
        summary="Quantizes to int8, and leaves operators in fp32 until each metric of the recipe is within "
        "its limit; static for conv nets, dynamic for transformers.",
        options=TunedOptions,
        precisions=frozenset({Precision.INT8}),
        needs=frozenset({Need.CALIBRATION_DATA, Need.PROGRAM, Need.DROP_LIMIT}),
        # The order of the operators depends on their measured times.
        supports={**_SUPPORTS, Capability.DETERMINISTIC: Support.UNSUPPORTED},
        machine_specific=True,
        default=False,
    ),
    _quantizer(
        name="onnxruntime.int4-weights",
        summary="Stores the weights of MatMul and Gemm in four-bit blocks (MatMulNBits): "
        "small files, for linear layers.",
        options=WeightsOptions,
        precisions=frozenset({Precision.INT4}),
    ),
)
