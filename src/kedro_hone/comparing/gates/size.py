"""Size on disk: the files of the candidate, in megabytes of a million bytes."""

from __future__ import annotations

from pydantic import Field

from kedro_hone.core.contract.gates import Gate, Measurements, judge_at_most
from kedro_hone.core.values.judgement import Judgement


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the size of all files with the limit."""
    size = candidate.size_bytes
    return (
        judge_at_most(
            name=GATE.name,
            candidate=candidate.id,
            measured=None if size is None else size / 1e6,
            limit=limit,
            unit="MB",
            subject=f"the files of {candidate.id}",
            verb="take",
        ),
    )


GATE = Gate(
    name="size_mb",
    takes=float | None,
    field=Field(
        default=None,
        gt=0,
        description="Absolute: the files of the published model must not pass this together, in MB (a million bytes).",
    ),
    judge=judge,
)
