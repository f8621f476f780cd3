"""Quality: the metric on the gate split reaches an absolute limit, whatever the source reaches."""

from __future__ import annotations

import math

from pydantic import Field

from hone_runtime.values.judgement import GateOutcome, Judgement
from kedro_hone.core.gates import Gate, Measurements


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the metric with the limit, in its own direction; exactly the limit passes."""
    quality = candidate.quality
    if quality is None or not math.isfinite(quality.candidate):
        reason = f"the metric of {candidate.id} was not measured, although a limit of {limit:g} is set"
        return (GATE.rule(candidate.id, GateOutcome.UNDECIDED, reason, limit=limit),)
    holds = quality.candidate >= limit if quality.higher_is_better else quality.candidate <= limit
    requirement = f"at {'least' if quality.higher_is_better else 'most'} {limit:g}"
    reason = f"{quality.metric} of {candidate.id} is {quality.candidate:.4f}, where {requirement} is required"
    judged = GateOutcome.HOLDS if holds else GateOutcome.FAILS
    return (GATE.rule(candidate.id, judged, reason, limit=limit, measured=quality.candidate, unit=quality.metric),)


GATE = Gate(
    name="quality",
    takes=float | None,
    field=Field(
        None, description="Absolute: the published metric must reach this, or not exceed it where lower is better."
    ),
    judge=judge,
    scored=True,
)
