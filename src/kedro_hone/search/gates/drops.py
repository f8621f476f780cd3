"""Drops: the losses in metrics besides the recipe's own, each with its whole interval within its limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from hone_runtime.values.judgement import GateOutcome, Judgement
from kedro_hone.core.gates import Gate, Measurements
from kedro_hone.search.gates.drop import NOT_SCORED, judge_drop


def judge(limit: Mapping[str, float], candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the whole interval of each metric's drop with its limit, as in the gate ``drop``."""
    if candidate.quality is None:
        return (GATE.rule(candidate.id, GateOutcome.UNDECIDED, NOT_SCORED.format(candidate.id)),)
    found = zip(limit.values(), candidate.quality.others, strict=True)  # they were measured in the recipe's order
    return tuple(judge_drop(GATE, most, candidate.id, quality) for most, quality in found)


GATE = Gate(
    name="drops",
    takes=dict[str, Annotated[float, Field(gt=0)]],
    field=Field(
        default_factory=dict,
        description="Of other metrics, by name: the drop's upper end must stay under this, in that metric's unit.",
    ),
    judge=judge,
    relative=True,
    scored=True,
    doubt="the gate split has too few rows to show whether {names} {are} good enough by every metric",
)
