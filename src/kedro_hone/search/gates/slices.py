"""Slices: the drop in each part of the gate split, whose whole interval must be within one limit."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import Quality, SliceQuality, is_bounded
from hone_runtime.values.slices import SliceLimit
from kedro_hone.core.gates import Gate, Measurements
from kedro_hone.search.gates.drop import NOT_SCORED

_NAMED = 3
"""How many undecided slices a reason names."""
_ORDER = (GateOutcome.FAILS, GateOutcome.UNDECIDED, GateOutcome.HOLDS)


def judge(limit: SliceLimit, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the whole interval of the drop in each slice with the limit; the judgement is that of the worst slice.

    The intervals are those of all slices together (``share_among_slices``). The gate fails if one slice certainly loses
    more than the limit, and holds only if every slice certainly loses less.
    """
    quality = candidate.quality
    if quality is None:
        reason = NOT_SCORED.format(candidate.id)
        return (GATE.rule(candidate.id, GateOutcome.UNDECIDED, reason, limit=limit.drop),)
    if not quality.slices:
        reason = (
            f"what {candidate.id} loses in each slice is not known, since the gate split was prepared without slices "
            f"by {limit.by}: run all pipelines again"
        )
        return (GATE.rule(candidate.id, GateOutcome.UNDECIDED, reason, limit=limit.drop),)
    worst = find_worst(quality.slices, limit.drop)
    judged, drop = judge_slice(worst, limit.drop), worst.drop
    known = is_bounded(drop.high)
    measured = {"measured": drop.estimate, "low": drop.low, "high": drop.high} if known else {}
    reason = _explain(candidate.id, quality, worst, judged=judged, limit=limit)
    return (GATE.rule(candidate.id, judged, reason, limit=limit.drop, unit=quality.metric, **measured),)


def judge_slice(one: SliceQuality, limit: float) -> GateOutcome:
    """Judge the drop in one slice; an upper end that equals the limit does not pass."""
    if one.drop.high < limit:
        return GateOutcome.HOLDS
    return GateOutcome.FAILS if one.drop.low > limit else GateOutcome.UNDECIDED


def find_worst(slices: tuple[SliceQuality, ...], limit: float) -> SliceQuality:
    """Return the slice that decides: one that fails, else one that is undecided, with the largest drop of these."""
    return min(slices, key=lambda one: (_ORDER.index(judge_slice(one, limit)), -one.drop.estimate, -one.drop.high))


def _explain(candidate: str, quality: Quality, worst: SliceQuality, *, judged: GateOutcome, limit: SliceLimit) -> str:
    place = f"{limit.by} = {worst.name}"
    rows = f"{place}, {worst.n} rows of {quality.n}"
    if worst.source is None or worst.candidate is None:
        change = f"{quality.metric} of {candidate} is not known in the slice {rows}: {worst.reason.rstrip('.')}"
    else:
        change = (
            f"{quality.metric} of {candidate} goes from {worst.source:.4f} to {worst.candidate:.4f} in the slice {rows}"
        )
    end = f"of at most {worst.drop.high:.4f}" if is_bounded(worst.drop.high) else "without a known end"
    if judged is GateOutcome.FAILS:
        end = f"of at least {worst.drop.low:.4f}"
    same = [one.name for one in quality.slices if judge_slice(one, limit.drop) is judged and one is not worst]
    others = ""
    if judged is not GateOutcome.HOLDS and same:
        more = f" and {len(same) - _NAMED} more" if len(same) > _NAMED else ""
        others = f"; so it is in {', '.join(same[:_NAMED])}{more}"
    words = {
        GateOutcome.HOLDS: "no slice loses more than is allowed: ",
        GateOutcome.FAILS: "a slice loses more than is allowed: ",
        GateOutcome.UNDECIDED: "a slice cannot be proved to lose no more than is allowed: ",
    }
    return f"{words[judged]}{change}, a drop {end} where {limit.drop:g} is allowed{others}"


GATE = Gate(
    name="slices",
    takes=SliceLimit | None,
    field=Field(
        None,
        description="The parts of the gate split, `by` a column, and the `drop` of the metric that none of them may "
        "reach: `{by: label, drop: 0.03}`.",
    ),
    judge=judge,
    relative=True,
    scored=True,
    doubt="some slices of the gate split have too few rows to show whether {names} {are} good enough in each",
)
