"""A run that is wanted, and what becomes of it."""

from __future__ import annotations

from enum import StrEnum

from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.digest import digest_json


class State(StrEnum):
    """How far a job is; skipped is one whose version is a winner already."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Request(Value):
    """A run that is wanted.

    Attributes:
        uri: The version, pinned.
        rule: The rule's name, or who asked.
        told: What the run is told: ``recipe``, ``env``.
        device: What it measures on.
        key: The same for requests of which one run is enough.
    """

    uri: str
    rule: str
    told: dict[str, Json]
    device: str = "cpu"
    key: str

    @classmethod
    def make(
        cls,
        *,
        uri: str,
        rule: str,
        told: dict[str, Json],
        device: str,
        hardware: str,
        version: str = "",
        recipe: str = "",
    ) -> Request:
        """Return a request; one run is enough for a version, what the run is told, the recipe, and the hardware.

        Args:
            uri: The version, pinned.
            rule: The rule's name, or who asked.
            told: What the run is told: ``recipe``, ``env``, or ``dispatch``.
            device: What it measures on.
            hardware: A digest of this machine's.
            version: What tells one content of the place from the next, where the URI names a place only.
            recipe: The digest of the recipe of the project that ``told`` changes.
        """
        key = digest_json([uri, version, told, recipe, device, hardware])
        return cls(uri=uri, rule=rule, told=told, device=device, key=key)


class Job(Value):
    """A request in the queue, and what became of it.

    Attributes:
        not_before: Seconds since 1970 before which it is not started; 0 for at once.
        created: Seconds since 1970; ``changed`` is when the state changed last.
        exit_code: That of ``kedro run``; None until it ended.
        published: The URI of the new version; empty where there is none.
        reason: Why it failed, was cancelled or skipped, or waits.
        process: The name of the process that runs it, as ``name_process`` makes it; empty before it has one.
    """

    id: int
    uri: str
    rule: str
    told: dict[str, Json]
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
