"""Speed-up: certainly faster than the source, even after division by the noise floor."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.judgement import GateOutcome, Judgement
from kedro_hone.core.gates import Gate, Measurements

_JUDGED = {"yes": GateOutcome.HOLDS, "no": GateOutcome.FAILS, "undecided": GateOutcome.UNDECIDED}


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Return the decision of the launches; a candidate that could not be confirmed fails."""
    judged = _JUDGED.get(candidate.faster, GateOutcome.FAILS)
    if candidate.speedup is None:
        return (GATE.rule(candidate.id, judged, f"{candidate.id} could not be confirmed", limit=limit, unit="times"),)
    ratio, shape, launches = candidate.speedup.ratio, candidate.speedup.shape, candidate.speedup.launches
    ends = f"{ratio.low:.2f} to {ratio.high:.2f}, {launches} launches"
    reason = f"{candidate.id} is {ratio.estimate:.2f} times as fast at {shape} ({ends})"
    if judged is GateOutcome.UNDECIDED and ratio.low >= limit:
        reason += f", with a noise floor of {candidate.speedup.noise_floor:.2f}"
    measured = {"measured": ratio.estimate, "low": ratio.low, "high": ratio.high, "shape": shape}
    return (GATE.rule(candidate.id, judged, reason, limit=limit, unit="times", **measured),)


GATE = Gate(
    name="speedup",
    takes=float,
    field=Field(
        default=1.05, ge=1, description="The lower end of the speed-up's interval over the noise floor must reach this."
    ),
    judge=judge,
    relative=True,
    asks="{limit:g} times as fast",
    doubt="{launches} launches cannot show whether {names} is {limit:g} times as fast (confirm.looks may allow more)",
)
