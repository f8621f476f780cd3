"""neural-compressor 2.6 on ONNX graphs: int8 tuned over the recipe's metric, and SmoothQuant."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Int8Options, Need, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

TOOLCHAIN = Toolchain(
    name="neural_compressor",
    title="neural-compressor",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("neural_compressor",),
    uses=("onnxruntime",),
    limits=Limits(seconds=1200.0),  # it measures the recipe's metric once for each configuration that it tries
    default=False,
    note="The last release that takes ONNX, without maintenance; its environment takes about 700 MB.",
)

_SUPPORTS = {
    Capability.DYNAMIC_BATCH: Support.FULL,
    Capability.EXTERNAL_DATA: Support.NOT_IMPLEMENTED,
    Capability.CONTROL_FLOW: Support.UNKNOWN,
    Capability.DETERMINISTIC: Support.FULL,
}


class QuantizeOptions(Int8Options):
    """Options of both quantizers."""

    layout: Literal["QDQ", "QOperator"] = "QDQ"
    """The form of integers in the graph: pairs of QuantizeLinear and DequantizeLinear, or integer operators."""
    subset_size: int = Field(default=100, ge=1)
    """The number of calibration rows."""


class TunedOptions(QuantizeOptions):
    """Options of ``neural_compressor.int8-static``."""

    strategy: Literal["basic", "bayesian", "mse_v2"] = "basic"
    """The order in which configurations are tried: the tool's own, by a Bayesian model of the metric, or by the
    squared error of each layer."""
    max_drop: float = Field(default=0.005, ge=0)
    """The largest allowed drop of the recipe's metric, in absolute terms."""
    trials: int = Field(default=20, ge=1, le=1000)
    """The largest number of configurations to try."""
    seconds: int = Field(default=300, ge=1, le=1000)
    """The time limit for trying configurations."""


class SmoothOptions(QuantizeOptions):
    """Options of ``neural_compressor.int8-smooth``."""

    alpha: float = Field(default=0.5, ge=0, le=1)
    """The share of the activations' outliers moved into the weights: G. Xiao et al., "SmoothQuant", ICML 2023."""


def _quantizer(name: str, summary: str, options: type[QuantizeOptions], needs: frozenset[Need]) -> Adaptor:
    return Adaptor(
        name=f"neural_compressor.{name}",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.COMPRESS,
        accepts=frozenset({"onnx"}),
        produces="onnx",
        summary=summary,
        options=options,
        precisions=frozenset({Precision.INT8}),
        needs=needs,
        supports=_SUPPORTS,
    )


ADAPTORS = (
    _quantizer(
        "int8-static",
        "Quantizes weights and activations to int8, and tries configurations until the recipe's metric is within the "
        "limit.",
        TunedOptions,
        frozenset({Need.CALIBRATION_DATA, Need.PROGRAM}),
    ),
    _quantizer(
        "int8-smooth",
        "Moves outliers of the activations into the weights (SmoothQuant), then quantizes both to int8.",
        SmoothOptions,
        frozenset({Need.CALIBRATION_DATA}),
    ),
)
