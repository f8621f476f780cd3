"""What a step hands on: an artifact, a refusal or a failure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from kedro_hone.core.values.artifact import Artifact, StepFacts
from kedro_hone.core.values.base import Value


class FailureClass(StrEnum):
    """Why a step failed. Transient ones are never cached: the next run may succeed."""

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


class Trespass(StrEnum):
    """Where a worker wrote, or tried to, although it may not."""

    INPUT = "wrote-input"
    OUTSIDE = "wrote-outside"


class Refused(Value):
    """An adaptor that was not tried, with the reason. A value, not an error.

    Attributes:
        by: The adaptor's name.
        slug: The class of the refusal.
        reason: One line for a person.
        steps: The steps of the route so far.
    """

    kind: Literal["refused"] = "refused"
    by: str
    slug: str = "not-applicable"
    reason: str
    steps: tuple[StepFacts, ...] = ()


class Failed(Value):
    """An adaptor that was tried and failed.

    Attributes:
        by: The adaptor's name, or the step's.
        failure: The class of the failure.
        reason: One line for a person.
        log: The worker's log, or None when no worker was started.
        trespass: Where it wrote although it may not, or None.
        steps: The steps of the route so far.
    """

    kind: Literal["failed"] = "failed"
    by: str
    failure: FailureClass
    reason: str
    log: str | None = None
    trespass: Trespass | None = None
    steps: tuple[StepFacts, ...] = ()


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
