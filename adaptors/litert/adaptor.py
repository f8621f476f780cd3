"""LiteRT's adaptors: int8 in three ways for converted models, and its runtime with XNNPACK."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import RunOptions, Toolchain, Verification
from hone_runtime.sessions.streams import MOST_STREAMS
from hone_runtime.values.artifact import Precision, Stage


class InterpreterRunOptions(RunOptions):
    """The options of a session; none of them opens a library or writes a file."""

    streams: int | None = Field(default=None, ge=1, le=MOST_STREAMS)
    """How many calls are computed at once, each with an equal share of the threads."""


TOOLCHAIN = Toolchain(
    name="litert",
    title="LiteRT",
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    modules=("ai_edge_litert", "ai_edge_quantizer"),
    runs=frozenset({"tflite", "tflite-file"}),
    data=frozenset({"tflite", "tflite-file"}),
    formats={"tflite": ("index.json", "model-*.tflite"), "tflite-file": ("model.tflite",)},
    run_options=InterpreterRunOptions,
    extra="litert",
    runtime_requirements=("ai-edge-litert>=2.3,<2.4",),
    note="Runs what `litert_torch`, `onnx2tf` or `tensorflow` makes. Its own environment takes about 250 MB, and a "
    "process that loads a winner needs the runtime alone.",
)


class InterpreterOptions(Options):
    """Options of ``litert.xnnpack``."""

    streams: int | None = Field(default=None, ge=1, le=MOST_STREAMS, exclude_if=lambda value: value is None)
    """How many calls are computed at once, each in an interpreter with an equal share of the threads. None: one call at
    a time, with all threads."""


class StaticOptions(Options):
    """Options of ``litert.int8-static``."""

    samples: int = Field(default=256, ge=1)
    """The largest number of calibration rows."""


_adaptor = partial(
    Adaptor,
    version=1,
    toolchain=TOOLCHAIN,
    accepts=frozenset({"tflite"}),
    produces="tflite",
    supports={
        Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,  # one file for each shape
        Capability.CONTROL_FLOW: Support.UNKNOWN,
        Capability.DETERMINISTIC: Support.FULL,
    },
)
_quantizer = partial(_adaptor, stage=Stage.COMPRESS, precisions=frozenset({Precision.INT8}))

ADAPTORS = (
    _adaptor(
        name="litert.shapes",
        stage=Stage.CONVERT,
        accepts=frozenset({"tflite-file"}),
        alternative=True,
        summary="Copies a source that is a `.tflite` for each of the recipe's shapes that it is made for.",
    ),
    _adaptor(
        name="litert.xnnpack",
        stage=Stage.COMPILE,
        summary="Runs a model in LiteRT with XNNPACK's kernels, at the model's own precision; one file for each shape.",
        options=InterpreterOptions,
        precisions=frozenset({Precision.FP32, Precision.INT8}),
        run_options=lambda options: options.model_dump(mode="json"),
        throughput=lambda clients: {"streams": [clients]},
    ),
    _quantizer(
        name="litert.int8-dynamic",
        summary="Quantizes weights to int8 by channel and activations at run time; needs no data.",
    ),
    _quantizer(
        name="litert.int8-weights",
        summary="Stores weights in int8 by channel and computes in fp32: a quarter of the size.",
    ),
    _quantizer(
        name="litert.int8-static",
        summary="Quantizes weights and activations to int8 with ranges from calibration data; best for conv nets.",
        options=StaticOptions,
        needs=frozenset({Need.CALIBRATION_DATA}),
    ),
)
