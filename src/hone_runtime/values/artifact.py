"""Artifacts: sealed directories of model files in one format, and the specs and shapes that describe them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from hone_runtime.values.base import CPU, Derived, Device, Format, Json, Value

FORMATS: Final[Mapping[Format, tuple[str, ...]]] = {
    "onnx": ("model.onnx",),
    "pytorch": ("model.pt2",),
    "pytorch-module": ("module.json",),
    "transformers": ("config.json", "*.[bs][ai][fn]*"),  # safetensors; .bin where pickles are trusted
    "torchscript": ("model.ts",),
    "aot-inductor": ("*.pt2",),
    "openvino-ir": ("model.xml", "model.bin"),
    "iree-vmfb": ("model*.vmfb",),
    "tensorflow": ("saved_model.pb",),
}
"""The formats that toolchains share, with glob patterns; each must match at least one non-empty file."""


TRAINED: Final = "trained"
"""Metadata: the notes of each adaptor of a route that trained the network, by its name; absent if none did."""
ONNX_FACTS: Final = ("opset", "ir_version", "domains", "crashes")
"""Metadata of an ONNX model about its file, besides its ``operators``; toolchains have limits for them.

``crashes`` is the pass of ONNX Runtime that is skipped, since it ends the process for such a graph."""


def find_missing(folder: Path, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns that match no non-empty file below a directory."""
    found = {name for name in patterns if any(path.is_file() and path.stat().st_size for path in folder.glob(name))}
    return tuple(name for name in patterns if name not in found)


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
    """One input or output of a model."""

    name: str = Field(description="The tensor's name, as the runtime knows it.")
    # NumPy evaluates as Python any name with a comma, or that starts with a bracket or a digit.
    dtype: str = Field(
        pattern=r"^[<>|=]?[A-Za-z][^,]*$", description="The numpy name of the element type, such as `float32`."
    )
    shape: tuple[int | str, ...] = Field(description="Sizes, or names of dynamic dimensions; equal names, equal sizes.")

    def resolve(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """Return the shape with every name replaced by its size in a recipe's shape; KeyError if a size is missing."""
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
    """One step of a route, as it was executed in this run or in an earlier one."""

    key: str = Field(description="Its key in the store.")
    adaptor: str = Field(description="The adaptor's name.")
    run: str = Field(description="The run that did it; run ids are times, and are ordered like them.")
    folder: str = Field(description="The step's folder, relative to that run's folder.")
    seconds: float = Field(description="How long it took when it was built.")
    outcome: Literal["artifact", "refused", "failed"] = Field(description="`artifact`, `refused` or `failed`.")

    @property
    def name(self) -> str:
        """The argument of ``kedro hone replay``."""
        return Path(self.folder).name


class Artifact(Derived):
    """One sealed directory of one format. The location of its files is defined by a store."""

    kind: Literal["artifact"] = "artifact"
    format: Format
    digest: str = Field(description="`sha256:` over the files and every attribute but `steps` and `made_from`.")
    inputs: tuple[TensorSpec, ...] = Field(description="What the model takes, in the order of its arguments.")
    outputs: tuple[TensorSpec, ...]
    runtime: str | None = Field(None, description="The toolchain that opens it, or None when it cannot run.")
    device: Device = CPU
    run_options: dict[str, Json] = Field({}, description="For the runtime when it opens it, such as a precision hint.")
    static_shapes: tuple[Shape, ...] = Field((), description="Specialized for these; empty where it takes any size.")
    metadata: dict[str, Json] = Field({}, description="What the adaptors noted, such as a producer's version.")
    steps: tuple[StepFacts, ...] = Field((), description="The steps that made it, first to last.")

    @property
    def identity(self) -> str:
        """The digest: the author and the time of creation do not matter."""
        return self.digest

    @property
    def is_trained(self) -> bool:
        """Whether a step of its route trained it, or a part of it: it may compute something else than the source."""
        return bool(self.metadata.get(TRAINED))

    @property
    def has_cache(self) -> bool:
        """Whether, by its metadata, it works with a cache of keys and values, as a language model may."""
        noted = self.metadata.get("cache")
        return isinstance(noted, dict) and "absent" not in noted

    def manifest(self) -> dict[str, Json]:
        """Return the attributes that are written next to the files and hashed with them: not digest and history."""
        return self.model_dump(mode="json", exclude={"digest", "kind", "steps", "made_from"})
