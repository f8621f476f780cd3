"""SparseML's adaptors: exported programs of PyTorch pruned by magnitude, at once or during fine-tuning."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Stage

TOOLCHAIN = Toolchain(
    name="sparseml",
    title="SparseML",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("sparseml",),
    with_torch=True,
    from_source=("gputil",),
    uses=("pytorch",),  # its module reads programs safely
    environment={
        "NM_DISABLE_ANALYTICS": "1",  # otherwise each import sends telemetry to its vendor and looks up the country
        "SPARSEML_DISABLE_ANALYTICS": "1",
    },
    limits=Limits(seconds=2400.0),
    default=False,
    note="Version 1.8.0 is the last: its end of life was in June 2025. Its environment takes about 1.5 GB. Its "
    "quantization-aware training and its ONNX export do not work with today's PyTorch and are not offered: "
    "`onnxruntime.int8-static` quantizes and `pytorch.onnx` exports what it pruned.",
)


class PruneOptions(Options):
    """Options of ``sparseml.prune``."""

    pattern: Literal["block4", "2:4", "unstructured"] = "block4"
    """Which weights are pruned together: four neighbours along the inputs, two of each four in a linear layer, or
    any."""
    sparsity: float = Field(default=0.8, gt=0, lt=1)
    """The share of each layer's weights that becomes zero; with the pattern 2:4 it must be 0.5."""

    @model_validator(mode="after")
    def _fit(self) -> PruneOptions:
        if self.pattern == "2:4" and self.sparsity != 0.5:
            raise ValueError("the pattern 2:4 makes half of the weights zero: set sparsity to 0.5")
        return self


class TuneOptions(PruneOptions):
    """Options of ``sparseml.tune``."""

    epochs: int = Field(default=40, ge=2, le=10_000)
    """The largest number of epochs over the training rows."""
    seconds: float = Field(default=1200.0, gt=0, le=2000)
    """The time limit of training; no epoch starts after it, and the best weights so far are used."""
    patience: int = Field(default=8, ge=1)
    """Early stopping: the number of epochs without a smaller error on the search split, once all is pruned."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """The learning rate of Adam."""
    batch: int = Field(default=64, ge=1)
    """The batch size, if the model's batch is dynamic."""


_adaptor = partial(
    Adaptor,
    toolchain=TOOLCHAIN,
    stage=Stage.COMPRESS,
    accepts=frozenset({"pytorch"}),
    produces="pytorch",
    supports={
        Capability.DYNAMIC_BATCH: Support.FULL,
        Capability.CONTROL_FLOW: Support.NOT_IMPLEMENTED,
        Capability.DETERMINISTIC: Support.FULL,
    },
)

ADAPTORS = (
    _adaptor(
        name="sparseml.prune",
        version=1,
        summary="Sets the smallest weights of convolutions and linear layers to zero, in one step and without data.",
        options=PruneOptions,
    ),
    _adaptor(
        name="sparseml.tune",
        version=2,  # 1 did not note that it was trained
        trains=True,
        summary="Prunes weights step by step (GMP) while the program is trained to keep its outputs on the training "
        "split.",
        options=TuneOptions,
        needs=frozenset({Need.TRAINING_DATA, Need.PROGRAM}),
    ),
)
