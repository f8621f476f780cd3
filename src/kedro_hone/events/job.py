"""Requests for runs, and the jobs that they become in the queue."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from hone_runtime.values.base import Json, Value
from hone_runtime.values.digest import digest_json

NO_DEVICE: Final = "none"
"""The device of jobs that measure nothing (approvals and hand-overs): they do not wait for a run to end."""


class State(StrEnum):
    """The state of a job; one is skipped if its version is a winner already."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class _Run(Value):
    """A run of the pipelines, here or elsewhere.

    Attributes:
        recipe: Changes of the project's recipe, as under ``hone:`` in parameters.yml.
        env: The Kedro environment; None for the default one.
        asked: Whether a person requested it: then the version may be a winner, too.
    """

    recipe: dict[str, Json] = Field(default_factory=dict)
    env: str | None = None
    asked: bool = False


class Optimize(_Run):
    """A run here."""

    kind: Literal["optimize"] = "optimize"


class HandOver(_Run):
    """A run in workflows of GitHub, which a ``repository_dispatch`` starts.

    Attributes:
        repository: ``owner/name``.
        event_type: The event that the workflows wait for.
    """

    kind: Literal["hand-over"] = "hand-over"
    repository: str
    event_type: str


class Approve(Value):
    """Moving the alias to a winner that waits for it.

    Attributes:
        alias: The approved alias; empty for the one that the winner waits for.
    """

    kind: Literal["approve"] = "approve"
    alias: str = ""


Task = Annotated[Optimize | HandOver | Approve, Field(discriminator="kind")]
"""The task of a job."""


class JobRequest(Value):
    """A requested task.

    Attributes:
        uri: The version, pinned.
        rule: The rule's name, or another reason for it.
        device: The device on which it measures.
        key: Equal for requests that one run satisfies.
        after: Seconds since 1970; an earlier job with the key had another content; 0 if there is none.
    """

    uri: str
    rule: str
    task: Task
    device: str = "cpu"
    key: str
    after: float = 0.0

    @classmethod
    def make(
        cls,
        *,
        uri: str,
        rule: str,
        task: Task,
        device: str,
        hardware: str,
        version: str = "",
        recipe: str = "",
    ) -> JobRequest:
        """Return a request; its key is the same for the same version, task, recipe and hardware.

        ``hardware`` is a digest of this machine's hardware, ``version`` the name of the content if the URI is only a
        path, and ``recipe`` the digest of the project's recipe, which the task's recipe changes.
        """
        key = digest_json([uri, version, task.model_dump(mode="json"), recipe, device, hardware])
        return cls(uri=uri, rule=rule, task=task, device=device, key=key)


class Job(Value):
    """A request in the queue, and its outcome.

    Attributes:
        not_before: Seconds since 1970 before which it is not started; 0 for at once.
        created: When it was last requested, in seconds since 1970.
        changed: When its state last changed, in seconds since 1970.
        exit_code: The exit code of ``kedro run``; None until it ended.
        published: The URI of the new version; empty if there is none.
        reason: Why it failed, was cancelled or skipped, or waits.
        process: The name of the process that runs it, as ``identify_process`` makes it; empty before it has one.
    """

    id: int
    uri: str
    rule: str
    task: Task
    device: str
    state: State
    attempts: int
    not_before: float
    created: float
    changed: float
    exit_code: int | None = None
    verdict: str = ""
    published: str = ""
    reason: str = ""
    process: str = ""
