"""Quality: the metric on the gate split reaches a number of its own, whatever the source reaches."""

from __future__ import annotations

import math

from pydantic import Field

from kedro_hone.core.contract.gates import Gate, Measurements
from kedro_hone.core.values.judgement import Judged, Judgement


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the metric with the limit; exactly the limit holds."""
    quality = candidate.quality
    reason = f"the metric of {candidate.id} was not measured, where {limit:g} is asked for"
    said = Judgement(name=GATE.name, candidate=candidate.id, judgement=Judged.UNDECIDED, limit=limit, reason=reason)
    if quality is None or not math.isfinite(quality.candidate):
        return (said,)
    found = {
        "judgement": Judged.HOLDS if quality.candidate >= limit else Judged.FAILS,
        "measured": quality.candidate,
        "unit": quality.metric,
        "reason": f"{quality.metric} of {candidate.id} is {quality.candidate:.4f}, where {limit:g} is asked for",
    }
    return (said.model_copy(update=found),)


GATE = Gate(
    name="quality",
    takes=float | None,
    field=Field(default=None, description="Absolute: the published metric must reach this."),
    judge=judge,
    scored=True,
)
