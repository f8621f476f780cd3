"""Artifacts: sealed directories of model files, and the tensors and shapes that describe them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field

from kedro_hone.core.values.base import CPU, Device, Format, Json, Value


class Stage(StrEnum):
    """An adaptor's place in a route."""

    CONVERT = "convert"
    COMPRESS = "compress"
    COMPILE = "compile"


class Precision(StrEnum):
    """The numeric precision of the weights or the arithmetic of an adaptor's result."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


class TensorSpec(Value):
    """One input or output of a model.

    Attributes:
        name: The tensor's name, as the runtime knows it.
        dtype: The numpy name of the element type, such as ``float32``.
        shape: Sizes; a string names a dynamic dimension, and equal names are equal sizes.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def resolve(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """Return the shape with every name replaced by its size in a recipe's shape (KeyError where it has none)."""
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self.shape)


class Shape(Value):
    """A batch size and the other dynamic sizes that every candidate must serve, named in the recipe."""

    name: str
    sizes: dict[str, int]

    @property
    def batch(self) -> int:
        """The number of rows of one call."""
        return self.sizes["batch"]


class StepFacts(Value):
    """One step of a route, as it was really done in this run or in an earlier one.

    Attributes:
        key: Its key in the store.
        adaptor: The adaptor's name.
        run: The run that did it; run ids are times, and are ordered like them.
        folder: The step's folder, relative to that run's folder.
        seconds: How long it took when it was built.
        outcome: ``artifact``, ``refused`` or ``failed``.
    """

    key: str
    adaptor: str
    run: str
    folder: str
    seconds: float
    outcome: Literal["artifact", "refused", "failed"]

    @property
    def name(self) -> str:
        """What ``kedro hone replay`` is given."""
        return Path(self.folder).name


class Artifact(Value):
    """One sealed directory of one format. Where its files are, only a store knows.

    Attributes:
        digest: ``sha256:`` over the files and every attribute but ``steps``.
        inputs: The tensors that the model takes, in the order of its arguments.
        runtime: The toolchain that opens it, or None when it cannot run.
        run_options: Options for the runtime when it opens it, such as a precision hint.
        static_shapes: The shapes it was specialized for; empty when it takes any size.
        metadata: What the adaptors noted, such as a producer's version.
        steps: The steps that made it, first to last.
    """

    kind: Literal["artifact"] = "artifact"
    format: Format
    digest: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    runtime: str | None = None
    device: Device = CPU
    run_options: dict[str, Json] = Field(default_factory=dict)
    static_shapes: tuple[Shape, ...] = ()
    metadata: dict[str, Json] = Field(default_factory=dict)
    steps: tuple[StepFacts, ...] = ()

    def manifest(self) -> dict[str, Json]:
        """Return what is written next to the files and hashed with them: all but digest and history."""
        return self.model_dump(mode="json", exclude={"digest", "kind", "steps"})
