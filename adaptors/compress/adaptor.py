"""Compressors: exported programs of PyTorch made smaller, and trained to return what the source returned."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from hone_runtime.contract.adaptor import Adaptor, Capability, Int8Options, Need, Options, Place, Support
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import TRAINED, Artifact, Precision, Stage
from hone_runtime.values.base import Json
from hone_runtime.values.outcome import Refused
from hone_runtime.values.regular import read_regular

_MOST_CODE = 1 << 20
"""The largest file of a student, in bytes."""

TOOLCHAIN = Toolchain(
    name="compress",
    title="Compression",
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    modules=("torch_pruning",),
    with_torch=True,
    uses=("pytorch",),  # its module reads and writes programs
    environment={"TORCHAO_FORCE_SKIP_LOADING_SO_FILES": "1"},
    limits=Limits(seconds=3600.0),
    default=False,
    note="Its compressors train the network with the recipe's training split, which takes minutes.",
)


class TrainingOptions(Options):
    """Options of every training."""

    epochs: int = Field(default=30, ge=1, le=10_000)
    """The largest number of epochs over the training rows."""
    seconds: float = Field(default=300.0, gt=0, le=2100)
    """The time limit of training: the number of epochs is reduced to those that fit."""
    patience: int = Field(default=10, ge=1)
    """Early stopping: the number of epochs without a smaller error on the search split."""
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """The largest learning rate of AdamW. None: 0.003, or 0.0008 for networks with attention."""
    batch: int = Field(default=64, ge=1)
    """The batch size, if the model's batch is dynamic."""


class PruneChannelsOptions(TrainingOptions):
    """Options of ``compress.prune-channels``."""

    ratio: float = Field(default=0.75, gt=0, lt=1)
    """The share of channels and heads that is removed; one head and ``round_to`` channels of a layer stay. Without
    half of the channels a layer has a quarter of its weights."""
    round_to: int = Field(default=8, ge=1, le=256)
    """Widths are multiples of this number."""


class DropLayersOptions(TrainingOptions):
    """Options of ``compress.drop-layers``."""

    share: float = Field(default=0.5, gt=0, lt=1)
    """The share of blocks that is left out."""


class LowRankOptions(TrainingOptions):
    """Options of ``compress.low-rank``."""

    rank: float = Field(default=0.25, gt=0, lt=1)
    """The rank, as a share of a layer's own."""
    round_to: int = Field(default=8, ge=1, le=256)
    """Ranks are multiples of this number."""


class ReplaceLayersOptions(TrainingOptions):
    """Options of ``compress.replace-layers``."""

    by: Literal["hard-swish", "relu"] = "relu"
    """What takes the place of SiLU and GELU."""


class SparsifyOptions(TrainingOptions):
    """Options of ``compress.sparsify``."""

    pattern: Literal["unstructured", "block4", "2:4"] = "unstructured"
    """Which weights are zero together: any, four neighbours along the inputs, or two of each four."""
    sparsity: float = Field(default=0.9, gt=0, lt=1)
    """The share of each layer's weights that becomes zero; with the pattern 2:4 it must be 0.5."""

    @model_validator(mode="after")
    def _fit(self) -> SparsifyOptions:
        if self.pattern == "2:4" and self.sparsity != 0.5:
            raise ValueError("the pattern 2:4 makes half of the weights zero: set sparsity to 0.5")
        return self


class DistilOptions(TrainingOptions):
    """Options of ``compress.distil``."""

    epochs: int = Field(default=60, ge=1, le=10_000)
    """The largest number of epochs over the training rows."""
    student: str = Field(default="", pattern=r"^$|^.+\.py:[A-Za-z_]\w*$")
    """The student: a file of Python and the class in it, such as ``students.py:SmallNet``."""
    kwargs: dict[str, Json] = Field(default_factory=dict)
    """The arguments of the class."""
    code: str = ""
    """The content of the file, which is read when the step starts."""

    def resolve(self, host: Host) -> DistilOptions:  # noqa: ARG002 - the contract's name
        """Return the options with the code of the student, so that another code is another step.

        Raises:
            OSError: The file cannot be read, or is a link.
            ValueError: It is not a regular file of Python, or too large.
        """
        file = self.student.rpartition(":")[0]
        if not file:
            return self
        return self.model_copy(update={"code": read_regular(Path(file), limit=_MOST_CODE).decode()})


class QatOptions(TrainingOptions, Int8Options):
    """Options of ``compress.qat``."""

    epochs: int = Field(default=8, ge=1, le=10_000)
    """The largest number of epochs over the training rows."""
    learning_rate: float | None = Field(default=3e-4, gt=0, le=1)
    """The largest learning rate of AdamW. None: 0.003, or 0.0008 for networks with attention."""


def _find_zeros(artifact: Artifact, *_: object) -> Refused | None:
    """Return a refusal of a network with masked weights, whose zeros another training would fill."""
    if "compress.sparsify" not in artifact.metadata.get(TRAINED, {}):
        return None
    return Refused(by="compress", slug="option", reason="another training would fill the zeros of compress.sparsify")


def _find_student(artifact: Artifact, options: Options, _: Host) -> Refused | None:
    """Return a refusal without a student, or if the source can be distilled from an earlier format of it."""
    if isinstance(options, DistilOptions) and not options.student:
        reason = "it trains a class of yours: name it by the option student, such as students.py:SmallNet"
    elif artifact.is_trained:
        reason = "a student learns from the source, whatever compressor came before"
    elif artifact.format == "onnx" and artifact.steps:
        reason = "its source is distilled as a program of PyTorch already"
    else:
        return None
    return Refused(by="compress.distil", slug="option", reason=reason)


_adaptor = partial(
    Adaptor,
    version=1,
    toolchain=TOOLCHAIN,
    stage=Stage.COMPRESS,
    accepts=frozenset({"pytorch"}),
    produces="pytorch",
    place=Place.SHRINK,
    trains=True,
    needs=frozenset({Need.TRAINING_DATA, Need.PROGRAM}),
    supports={
        Capability.DYNAMIC_BATCH: Support.FULL,
        Capability.CONTROL_FLOW: Support.NOT_IMPLEMENTED,
        Capability.DETERMINISTIC: Support.UNSUPPORTED,  # a time limit reduces the number of epochs
    },
    machine_specific=True,
    can_take=_find_zeros,
)

ADAPTORS = (  # those that usually win the most are first: trainings of equal forecasts run in this order
    _adaptor(
        name="compress.distil",
        summary="Trains a smaller network of yours, the student, to return what the source returns.",
        options=DistilOptions,
        accepts=frozenset({"pytorch", "onnx"}),
        can_take=_find_student,
        default=False,  # it needs a class of the user
    ),
    _adaptor(
        name="compress.prune-channels",
        summary="Removes whole channels, heads and hidden widths, so that layers become narrower, and trains the rest.",
        options=PruneChannelsOptions,
        strengths={"ratio": (0.75, 0.875, 0.5)},
    ),
    _adaptor(
        name="compress.drop-layers",
        summary="Leaves out the blocks whose absence changes the outputs least, and trains the rest.",
        options=DropLayersOptions,
        strengths={"share": (0.5, 0.75, 0.25)},
    ),
    _adaptor(
        name="compress.low-rank",
        summary="Replaces a wide layer by two thinner ones that approximate its weights, and trains them.",
        options=LowRankOptions,
        strengths={"rank": (0.25, 0.125, 0.5)},
    ),
    _adaptor(
        name="compress.replace-layers",
        summary="Replaces SiLU and GELU, which int8 kernels cannot fuse, and trains the network with others.",
        options=ReplaceLayersOptions,
        place=Place.REPLACE,
    ),
    _adaptor(
        name="compress.qat",
        summary="Trains the network with weights and activations rounded to int8 (QAT), by PT2E.",
        options=QatOptions,
        place=Place.QUANTIZE,
        precisions=frozenset({Precision.INT8}),
    ),
    _adaptor(
        name="compress.sparsify",
        summary="Sets weights to zero step by step (GMP) while the others are trained.",
        options=SparsifyOptions,
        default=False,  # it makes nothing faster on most CPUs
    ),
)
