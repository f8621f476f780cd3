"""The gates, one module each, which exports ``GATE``. A new file is a new gate; see ``core.contract.gates``."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from kedro_hone.core.contract.gates import Gate, Measurements, judge_at_most
from kedro_hone.core.values.judgement import Judgement


def make_ceiling(
    name: str,
    measure: Callable[[Measurements], float | None],
    *,
    unit: str,
    subject: str,
    description: str,
    verb: str = "takes",
    per: float = 1.0,
) -> Gate:
    """Return an absolute gate on one number of a candidate, which must not pass the limit.

    Args:
        name: Its key in the recipe's section ``gates``.
        measure: Takes the number from what was measured; None where it was not.
        unit: The unit of the limit.
        subject: What was measured, with ``{}`` for the candidate's id.
        description: Of the limit, for the reference.
        verb: What the subject does, such as ``takes``.
        per: What was measured is divided by this to be in the unit.
    """

    def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001 - each judge gets it
        measured = measure(candidate)
        return (
            judge_at_most(
                name=name,
                candidate=candidate.id,
                measured=None if measured is None else measured / per,
                limit=limit,
                unit=unit,
                subject=subject.format(candidate.id),
                verb=verb,
            ),
        )

    return Gate(name=name, takes=float | None, field=Field(default=None, gt=0, description=description), judge=judge)
