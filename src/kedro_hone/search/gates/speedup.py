"""Speed-up: certainly faster than the source, even after division by the noise floor."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import Speedup, is_telling
from kedro_hone.core.gates import Gate, Measurements

_JUDGED = {"yes": GateOutcome.HOLDS, "no": GateOutcome.FAILS, "undecided": GateOutcome.UNDECIDED}


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Return the decision of the launches; a candidate that could not be confirmed fails."""
    judged = _JUDGED.get(candidate.faster, GateOutcome.FAILS)
    if candidate.speedup is None:
        return (GATE.rule(candidate.id, judged, f"{candidate.id} could not be confirmed", limit=limit, unit="times"),)
    ratio, shape = candidate.speedup.ratio, candidate.speedup.shape
    reason = f"{candidate.id} is {ratio.estimate:.2f} times as fast at {shape} ({_describe_ends(candidate.speedup)})"
    if judged is GateOutcome.UNDECIDED and ratio.low >= limit > ratio.low / candidate.speedup.noise_floor:
        reason += f"; {_compare(candidate.speedup, limit)}"
    measured = {"measured": ratio.estimate, "low": ratio.low, "high": ratio.high, "shape": shape}
    return (GATE.rule(candidate.id, judged, reason, limit=limit, unit="times", **measured),)


def _describe_ends(speedup: Speedup) -> str:
    ratio, launches = speedup.ratio, f"{speedup.launches} launches"
    if is_telling(ratio):
        return f"{ratio.low:.2f} to {ratio.high:.2f}, {launches}"
    return f"{ratio.low:.2f} or more, {launches}" if ratio.low >= 1 else f"{launches}, too few for an interval"


def _compare(speedup: Speedup, limit: float) -> str:
    """Return the comparison that decides, with enough decimals to see that the limit is not reached."""
    low, noise = speedup.ratio.low, speedup.noise_floor
    least = low / noise
    decimals = next((count for count in range(2, 6) if round(least, count) < limit), 6)
    return f"{low:.2f} divided by the noise floor of {noise:.2f} is {least:.{decimals}f}, below {limit:g}"


GATE = Gate(
    name="speedup",
    takes=float,
    field=Field(
        default=1.05, ge=1, description="The lower end of the speed-up's interval over the noise floor must reach this."
    ),
    judge=judge,
    relative=True,
    asks="{limit:g} times as fast",
    doubt="{launches} launches cannot show whether {names} {are} {limit:g} times as fast "
    "(hone.confirm.looks may allow more)",
)
