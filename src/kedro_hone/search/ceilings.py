"""Ceilings: absolute gates on one number of a candidate, such as its size."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from hone_runtime.values.judgement import Judgement
from kedro_hone.core.gates import Gate, Measurements, judge_at_most


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
    """Return an absolute gate on one number of a candidate, which must not exceed the limit.

    ``measure`` returns the number from the measurements (None if missing); divided by ``per`` it is in the unit. The
    reason consists of the subject, with the candidate's id for ``{}``, the ``verb`` and the number.
    """

    def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001 - each judge gets it
        in_unit = None if (measured := measure(candidate)) is None else measured / per
        fields = {"unit": unit, "subject": subject.format(candidate.id), "verb": verb}
        return (judge_at_most(name=name, candidate=candidate.id, measured=in_unit, limit=limit, **fields),)

    return Gate(name=name, takes=float | None, field=Field(default=None, gt=0, description=description), judge=judge)
