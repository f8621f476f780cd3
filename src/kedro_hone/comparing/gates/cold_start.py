"""Cold start: the time from the start of loading to the first predictions, in milliseconds."""

from __future__ import annotations

from pydantic import Field

from kedro_hone.core.contract.gates import Gate, Measurements, judge_at_most
from kedro_hone.core.values.judgement import Judgement


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the time to the first predictions with the limit."""
    return (
        judge_at_most(
            name=GATE.name,
            candidate=candidate.id,
            measured=candidate.cold_start_ms,
            limit=limit,
            unit="ms",
            subject=f"the cold start of {candidate.id}",
        ),
    )


GATE = Gate(
    name="cold_start_ms",
    takes=float | None,
    field=Field(
        default=None,
        gt=0,
        description="Absolute: the time from the start of loading to the first predictions, without the interpreter's "
        "start, must not pass this, in milliseconds.",
    ),
    judge=judge,
)
