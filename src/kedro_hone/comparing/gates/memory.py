"""Peak memory: resident memory of the process that runs the candidate, in megabytes of a million bytes."""

from __future__ import annotations

from pydantic import Field

from kedro_hone.core.contract.gates import Gate, Measurements, judge_at_most
from kedro_hone.core.values.judgement import Judgement


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the highest resident memory with the limit."""
    peak = candidate.peak_memory_bytes
    return (
        judge_at_most(
            name=GATE.name,
            candidate=candidate.id,
            measured=None if peak is None else peak / 1e6,
            limit=limit,
            unit="MB",
            subject=f"the process of {candidate.id}",
            verb="takes at its peak",
        ),
    )


GATE = Gate(
    name="memory_mb",
    takes=float | None,
    field=Field(
        default=None,
        gt=0,
        description="Absolute: the peak resident memory of the process that runs the model, with its interpreter and "
        "its toolchain, must not pass this, in MB (a million bytes).",
    ),
    judge=judge,
)
