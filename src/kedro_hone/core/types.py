"""The values that flow through the pipelines: artifacts, refusals, failures and what surrounds them.

Everything here is immutable and serializes to JSON, so that a value can cross a process border or lie in a dataset
between two runs without losing anything.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Json = Any
"""A JSON value. Pydantic checks it on the way in; mypy cannot follow its recursion through dataclass fields."""

Format = str
"""What kind of model files a directory holds, such as ``onnx`` or ``openvino-ir``; see ``core.formats``."""

BACKENDS: tuple[Format, ...] = ("pytorch", "onnx", "tensorflow")
"""The formats that every model is converted to first."""


class Value(BaseModel):
    """Base of every value: frozen, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Stage(StrEnum):
    """Where in a route an adaptor stands."""

    CONVERT = "convert"
    COMPRESS = "compress"
    COMPILE = "compile"


class Precision(StrEnum):
    """The numeric precision of the weights or the arithmetic that an adaptor leaves behind."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


class FailureClass(StrEnum):
    """Why a step failed. The transient ones are never cached: the next run may fare better."""

    INSTALL = "install"
    CONVERT = "convert"
    COMPRESS = "compress"
    COMPILE = "compile"
    LOAD = "load"
    NUMERICS = "numerics"
    BAD_OUTPUT = "bad-output"
    OUT_OF_MEMORY = "out-of-memory"
    TIME_OUT = "time-out"
    DISK_FULL = "disk-full"
    CRASH = "crash"
    KILLED = "killed"

    @property
    def transient(self) -> bool:
        """Whether the same step could succeed when tried again."""
        return self in _TRANSIENT


_TRANSIENT = frozenset(
    {
        FailureClass.INSTALL,
        FailureClass.OUT_OF_MEMORY,
        FailureClass.TIME_OUT,
        FailureClass.DISK_FULL,
        FailureClass.KILLED,
    }
)


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
        """Return the concrete shape under the sizes of a recipe's shape.

        Args:
            sizes: A size for each dynamic dimension.

        Returns:
            The shape with every name replaced.

        Raises:
            KeyError: A dynamic dimension has no size.
        """
        return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self.shape)


class Shape(Value):
    """A batch size and the other dynamic sizes that every candidate must serve, named in the recipe."""

    name: str
    sizes: dict[str, int]

    @property
    def batch(self) -> int:
        """The number of rows of one call."""
        return self.sizes["batch"]


class Artifact(Value):
    """One sealed directory of one format.

    Attributes:
        path: Where the files lie (not part of the digest).
        format: What kind of files they are.
        digest: ``sha256:`` over the files and every attribute below.
        inputs: The tensors that the model takes, in the order of its arguments.
        outputs: The tensors that it returns.
        runtime: The toolchain that opens it, or None when it cannot run.
        run_options: What the runtime is told when it opens it, such as a precision hint.
        static_shapes: The shapes it was specialized for; empty when it takes any size.
        metadata: What the adaptors noted, such as a producer's version.
    """

    kind: Literal["artifact"] = "artifact"
    path: str
    format: Format
    digest: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    runtime: str | None = None
    run_options: dict[str, Json] = Field(default_factory=dict)
    static_shapes: tuple[Shape, ...] = ()
    metadata: dict[str, Json] = Field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The directory as a path."""
        return Path(self.path)

    def manifest(self) -> dict[str, Json]:
        """Return what is written beside the files and hashed with them: all but the path and the digest."""
        return self.model_dump(mode="json", exclude={"path", "digest", "kind"})


class Refused(Value):
    """An adaptor that was not tried, with the reason. A value, not an error."""

    kind: Literal["refused"] = "refused"
    by: str
    slug: str = "not-applicable"
    reason: str


class Failed(Value):
    """An adaptor that was tried and failed.

    Attributes:
        by: The adaptor's name, or the step's.
        failure: The class of the failure.
        reason: One line for a person.
        log: The worker's log, or None when no worker was started.
    """

    kind: Literal["failed"] = "failed"
    by: str
    failure: FailureClass
    reason: str
    log: str | None = None


Outcome = Annotated[Artifact | Refused | Failed, Field(discriminator="kind")]
"""What a step hands on."""

OUTCOME: TypeAdapter[Artifact | Refused | Failed] = TypeAdapter(Outcome)
"""Reads an outcome back from JSON."""


class Candidate(Value):
    """What a route produced.

    Attributes:
        id: The namespace that ends the route, such as ``onnx.onnxruntime_int8_static.onnxruntime_session``.
        route: The adaptors' names in order; empty for the source model itself.
        outcome: The artifact, or why there is none.
    """

    id: str
    route: tuple[str, ...]
    outcome: Outcome


def digest_json(value: Json) -> str:
    """Return ``sha256:…`` of a JSON value in canonical form (sorted keys, no blanks)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return ``sha256:…`` of a file's bytes."""
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()


def digest_tree(folder: Path) -> str:
    """Return ``sha256:…`` of every file below a directory: relative names and bytes, in sorted order."""
    rows = [
        (path.relative_to(folder).as_posix(), digest_file(path)) for path in sorted(folder.rglob("*")) if path.is_file()
    ]
    return digest_json(rows)
