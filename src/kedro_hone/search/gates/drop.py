"""Drop: the loss against the source on the gate split, whose whole interval must be within the limit."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import Quality, is_bounded
from kedro_hone.core.gates import Gate, Measurements

NOT_SCORED = "{} was not scored on the gate split"
_WORDS = {GateOutcome.HOLDS: "holds", GateOutcome.FAILS: "fails", GateOutcome.UNDECIDED: "cannot be proved to hold"}


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the whole interval of the drop with the limit; an upper end that equals the limit does not pass."""
    if candidate.quality is None:
        return (GATE.rule(candidate.id, GateOutcome.UNDECIDED, NOT_SCORED.format(candidate.id), limit=limit),)
    return (judge_drop(GATE, limit, candidate.id, candidate.quality),)


def judge_drop(gate: Gate, limit: float, candidate: str, quality: Quality) -> Judgement:
    """Judge the drop of one metric of a candidate."""
    drop = quality.drop
    most = f"of at most {drop.high:.4f}" if is_bounded(drop.high) else "without a known end"
    judged = (
        GateOutcome.HOLDS if drop.high < limit else GateOutcome.FAILS if drop.low > limit else GateOutcome.UNDECIDED
    )
    reason = (
        f"{candidate} {_WORDS[judged]} the quality gate: {quality.metric} {quality.source:.4f} "
        f"to {quality.candidate:.4f} on {quality.n} rows, a drop {most} where {limit:g} is allowed"
    )
    if quality.classes:
        worst = max(quality.classes, key=lambda one: (one.lost - one.gained) / one.n)
        reason += f"; class {worst.name}: {worst.lost} of {worst.n} rows lost, {worst.gained} gained"
    measured = {"measured": drop.estimate, "low": drop.low, "high": drop.high, "unit": quality.metric}
    return gate.rule(candidate, judged, reason, limit=limit, **measured)


GATE = Gate(
    name="drop",
    takes=float,
    field=Field(default=0.01, gt=0, description="The drop's upper end must stay under this, in the metric's unit."),
    judge=judge,
    relative=True,
    scored=True,
    doubt="the gate split has too few rows to show whether {names} {are} good enough",
)
