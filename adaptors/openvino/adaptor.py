"""OpenVINO's and NNCF's adaptors: conversion to IR, two precisions of inference, int8 in four ways, int4 weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Int8Options, Need, Options, Place, Support
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Limits, RunOptions, Toolchain, Verification
from hone_runtime.sessions.streams import MOST_STREAMS
from hone_runtime.values.artifact import Artifact, Precision, Stage
from hone_runtime.values.base import Json
from hone_runtime.values.outcome import Refused


class Properties(RunOptions):
    """Properties of OpenVINO, by its own names; none of them writes a file, as ``CACHE_DIR`` does."""

    INFERENCE_PRECISION_HINT: Literal["f32", "bf16"] | None = None
    """The precision of the computation."""
    PERFORMANCE_HINT: Literal["LATENCY", "THROUGHPUT"] | None = None
    """The goal of the optimization: the latency of a single call, or the throughput of several at once."""
    NUM_STREAMS: int | None = Field(default=None, ge=1, le=MOST_STREAMS)
    """How many calls are computed at once, each with an equal share of the threads."""


TOOLCHAIN = Toolchain(
    name="openvino",
    title="OpenVINO",
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    modules=("openvino", "nncf"),
    runs=frozenset({"openvino-ir"}),
    survives_fork=True,
    data=frozenset({"openvino-ir"}),
    reads=frozenset({"cache", "compiled_shapes"}),
    limits=Limits(seconds=1200.0),  # accuracy control measures the model once for each layer that it reverts
    run_options=Properties,
    extra="openvino",
    runtime_requirements=("openvino>=2026.4,<2027",),
)

_SUPPORTS = {
    Capability.DYNAMIC_BATCH: Support.FULL,
    Capability.EXTERNAL_DATA: Support.FULL,
    Capability.CONTROL_FLOW: Support.UNKNOWN,
    Capability.DETERMINISTIC: Support.FULL,
}


class QuantizeOptions(Int8Options):
    """Options of ``openvino.int8-ptq``."""

    preset: Literal["performance", "mixed"] | None = None
    """``performance`` quantizes activations symmetrically, ``mixed`` asymmetrically; None lets NNCF choose."""
    transformer: bool | None = None
    """Whether to use the quantization scheme for transformers; None uses it if the graph has attention. Without it the
    attention mask is quantized too, which made a sentence encoder useless."""
    smooth_quant: float | None = Field(default=None, ge=-1, le=1)
    """SmoothQuant, in the scheme for transformers: the share of the activations' outliers that is moved into the
    weights of a matrix product, from 0 to 1. -1 disables it; None is NNCF's default, 0.95."""
    subset_size: int = Field(default=300, ge=1)
    """The largest number of calibration rows."""
    fast_bias_correction: bool = True
    """Whether to use the fast bias correction; the other one is more thorough."""
    exclude: tuple[str, ...] = ()
    """Names of nodes to leave unchanged."""


class AccuracyControlOptions(QuantizeOptions):
    """Options of ``openvino.int8-accuracy-control``."""

    max_drop: float = Field(default=0.005, ge=0)
    """The largest allowed drop of the recipe's metric, in absolute terms."""


class TunedOptions(QuantizeOptions):
    """Options of ``openvino.int8-tuned``."""

    strategy: Literal["sensitivity", "basic", "exhaustive"] = "sensitivity"
    """How operators are chosen. ``sensitivity``: those with the least divergence for the time that they take, by
    bisection. ``basic``: all, without the operators of the largest divergence, one by one. ``exhaustive``: every
    subset, of a few operators only."""
    evaluations: int = Field(default=15, ge=2)
    """The most candidates that are validated with the recipe's metrics."""


def refuse_fused(artifact: Artifact, _options: Options, _host: Host) -> Refused | None:
    """Refuse graphs with ONNX Runtime's own operators, such as fused attention: OpenVINO has its own fusions."""
    if "fused_operators" not in artifact.metadata:
        return None
    reason = "the graph holds fused operators of ONNX Runtime's own; OpenVINO takes it as it was before"
    return Refused(by="openvino.ir", slug="format", reason=reason)


class CompileOptions(Options):
    """Options of ``openvino.f32`` and ``openvino.bf16``."""

    fixed_shapes: bool = True
    """Whether to compile the graph again for each of the recipe's shapes, which is faster for small shapes; other
    shapes run in the dynamic graph. Each copy needs the memory of the weights again, so this is not done above 128
    MiB."""
    streams: Annotated[int, Field(ge=1, le=MOST_STREAMS)] | Literal["auto"] | None = Field(
        default=None, exclude_if=lambda value: value is None
    )
    """How many calls are computed at once, each with an equal share of the threads: one for each thread at most.
    ``auto`` lets OpenVINO choose by its hint for throughput. None: one call at a time, with all threads."""


def _make_properties(precision: Literal["f32", "bf16"], options: Options) -> dict[str, Json]:
    """Return the properties for a precision: for a single call, or for several at once."""
    streams = getattr(options, "streams", None)
    hint = "LATENCY" if streams is None else "THROUGHPUT"
    number = {"NUM_STREAMS": streams} if isinstance(streams, int) else {}
    return {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": hint, **number}


class Int8WeightsOptions(Options):
    """Options of ``openvino.int8-weights``."""

    symmetric: bool = False
    """Whether to quantize without a zero point for each channel."""
    exclude: tuple[str, ...] = ()
    """Names of nodes to leave unchanged."""


class Int4WeightsOptions(Options):
    """Options of ``openvino.int4-weights``."""

    symmetric: bool = True
    """Whether to quantize without a zero point for each group."""
    group_size: int = Field(default=64, ge=-1)
    """How many weights share a scale; fewer if a layer's width requires it. -1 is a whole channel, which is also used
    if no layer can be divided."""
    ratio: float = Field(default=1.0, gt=0, le=1)
    """The share of the weights that is stored in four bits; the others are stored in eight."""
    all_layers: bool = False
    """Whether embeddings and the last layer are stored in four bits too."""
    exclude: tuple[str, ...] = ()
    """Names of nodes to leave unchanged."""


_adaptor = partial(Adaptor, version=1, toolchain=TOOLCHAIN, produces="openvino-ir", supports=_SUPPORTS)
_on_ir = partial(_adaptor, accepts=frozenset({"openvino-ir"}))
_to_int8 = partial(_on_ir, stage=Stage.COMPRESS, precisions=frozenset({Precision.INT8}))

ADAPTORS = (
    _adaptor(
        name="openvino.ir",
        stage=Stage.CONVERT,
        accepts=frozenset({"onnx"}),
        summary="Converts ONNX to OpenVINO's IR, with the weights in their own precision.",
        can_take=refuse_fused,
    ),
    _on_ir(  # without a hint OpenVINO computes in bf16 if the CPU supports it
        name="openvino.f32",
        version=3,
        stage=Stage.COMPILE,
        summary="Runs the IR in OpenVINO on the CPU, computing in fp32 where it is not quantized.",
        options=CompileOptions,
        run_options=partial(_make_properties, "f32"),
        throughput=lambda clients: {"streams": ["auto", clients]},
    ),
    _on_ir(
        name="openvino.bf16",
        version=3,
        stage=Stage.COMPILE,
        summary="Runs the IR in OpenVINO on the CPU, computing in bf16 where it is not quantized.",
        options=CompileOptions,
        precisions=frozenset({Precision.BF16}),
        needs=frozenset({Need.AVX512_BF16}),
        machine_specific=True,
        run_options=partial(_make_properties, "bf16"),
        throughput=lambda clients: {"streams": ["auto", clients]},
    ),
    _to_int8(
        name="openvino.int8-ptq",
        place=Place.QUANTIZE,
        summary="Quantizes weights and activations to int8 with NNCF and calibration data.",
        options=QuantizeOptions,
        needs=frozenset({Need.CALIBRATION_DATA}),
    ),
    _to_int8(
        name="openvino.int8-accuracy-control",
        summary="Quantizes to int8 with NNCF, then reverts layers until the recipe's metric is within the limit.",
        options=AccuracyControlOptions,
        needs=frozenset({Need.CALIBRATION_DATA, Need.PROGRAM}),
    ),
    _to_int8(
        name="openvino.int8-tuned",
        summary="Quantizes to int8 with NNCF, and leaves operators in fp32 until each metric of the recipe is "
        "within its limit.",
        options=TunedOptions,
        needs=frozenset({Need.CALIBRATION_DATA, Need.PROGRAM, Need.DROP_LIMIT}),
        # The order of the operators depends on their measured times.
        supports={**_SUPPORTS, Capability.DETERMINISTIC: Support.UNSUPPORTED},
        machine_specific=True,
        default=False,
    ),
    _to_int8(
        name="openvino.int8-weights",
        summary="Stores the weights in int8 with NNCF and keeps the activations; needs no data.",
        options=Int8WeightsOptions,
    ),
    _on_ir(
        name="openvino.int4-weights",
        stage=Stage.COMPRESS,
        summary="Stores the weights of linear layers in int4 groups with NNCF; needs no data.",
        options=Int4WeightsOptions,
        precisions=frozenset({Precision.INT4}),
    ),
)
