"""The output of a step: an artifact, a refusal or a failure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from hone_runtime.values.artifact import Artifact, StepFacts
from hone_runtime.values.base import Derived, Json, Value


class FailureClass(StrEnum):
    """Why a step failed. Transient failures are never cached: the next run may succeed."""

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
        """Whether the same step could succeed if tried again."""
        return self.value in {"install", "out-of-memory", "time-out", "disk-full", "killed"}


class Trespass(StrEnum):
    """Where a worker wrote, or tried to write, without permission."""

    INPUT = "wrote-input"
    OUTSIDE = "wrote-outside"


class Refused(Derived):
    """An adaptor (``by``) that was not tried, with the reason for people, and the steps of the route so far."""

    kind: Literal["refused"] = "refused"
    by: str
    slug: str = "not-applicable"
    reason: str
    steps: tuple[StepFacts, ...] = ()


class Failed(Derived):
    """An adaptor or another step (``by``) that was tried and failed, with the reason for people."""

    kind: Literal["failed"] = "failed"
    by: str
    failure: FailureClass
    reason: str
    log: str | None = Field(None, description="The worker's log, or None when no worker was started.")
    trespass: Trespass | None = Field(None, description="Where it wrote although it may not, or None.")
    steps: tuple[StepFacts, ...] = Field((), description="The steps of the route so far.")


Outcome = Annotated[Artifact | Refused | Failed, Field(discriminator="kind")]
"""The output of a step."""

OUTCOME: TypeAdapter[Artifact | Refused | Failed] = TypeAdapter(Outcome)


class Candidate(Value):
    """The result of a route."""

    id: str = Field(description="The namespace that ends the route, such as `onnx.onnxruntime_session`.")
    route: tuple[str, ...] = Field(description="The adaptors' names in order; empty for the source model itself.")
    outcome: Outcome
    options: dict[str, dict[str, Json]] = Field(
        {}, description="Those of which the recipe lists several values, with the candidate's own, by adaptor."
    )
