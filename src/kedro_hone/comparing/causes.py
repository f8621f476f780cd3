"""Why no candidate won: how many were lost to which cause, and what may help against the most frequent one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import StrEnum
from typing import Final

from kedro_hone.core.stats.speed import Faster
from kedro_hone.core.values.measurement import Confirmation, Status, Validation


class Cause(StrEnum):
    """What a candidate was lost to, in words that follow a number of candidates."""

    SLOW = "not fast enough"
    BEHIND = "behind in the race"
    WORSE = "too far from the source's results"
    GATE = "fast enough, but failed another gate"
    UNDECIDED = "not decided"
    REFUSED = "refused"
    FAILED = "failed"
    NOT_TRIED = "not tried"


_OF_STATUS: Final = {
    Status.DROPPED: Cause.WORSE,
    Status.REFUSED: Cause.REFUSED,
    Status.FAILED: Cause.FAILED,
    Status.NOT_TRIED: Cause.NOT_TRIED,
}
_OF_SPEED: Final = {Faster.YES: Cause.GATE, Faster.NO: Cause.SLOW, "": Cause.FAILED}
_STEPS: Final = {
    Cause.SLOW: "toolchains that the recipe does not select, or the shapes and threads of production",
    Cause.BEHIND: "toolchains that the recipe does not select, or the shapes and threads of production",
    Cause.WORSE: "calibration rows more like the model's data, or a larger gates.drop where that is acceptable",
    Cause.GATE: "a larger limit of the gate that they missed, where that is acceptable: the report has by how much",
    Cause.REFUSED: "toolchains that the recipe does not select: the report has why these do not take the model",
    Cause.FAILED: "to correct what their reasons name: the report has them, with the logs of the steps",
}


def explain(validations: Collection[Validation], confirmation: Confirmation) -> list[str]:
    """Return how many candidates were lost to which cause, and what may help; an empty list where there are none."""
    counts = count_causes(validations, confirmation)
    if not counts:
        return []
    said = ", ".join(f"{number} {cause}" for cause, number in counts.most_common())
    total = counts.total()
    found = [f"of {total} candidates: {said}" if total > 1 else f"the one candidate: {said.removeprefix('1 ')}"]
    steps = [_STEPS[cause] for cause, _ in counts.most_common() if cause in _STEPS]
    return [*found, *(f"what may help: {step}" for step in steps[:1])]


def count_causes(validations: Collection[Validation], confirmation: Confirmation) -> Counter[Cause]:
    """Return how many candidates were lost to each cause."""
    speeds = {finalist.id: finalist.verdict for finalist in confirmation.finalists}
    raced = [one.candidate.id for one in validations if one.status is Status.MEASURED]
    found = [_OF_STATUS[one.status] for one in validations if one.status is not Status.MEASURED]
    found += [_OF_SPEED.get(speeds[name], Cause.UNDECIDED) if name in speeds else Cause.BEHIND for name in raced]
    return Counter(found)
