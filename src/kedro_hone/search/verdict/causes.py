"""Why no candidate won: the number lost for each cause, and a remedy for the most frequent one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import StrEnum
from typing import Final

from hone_runtime.values.measurement import RACED, Confirmation, Finalist, RaceResult, Standing, Status
from kedro_hone.core.stats.speed import Faster


class Cause(StrEnum):
    """The causes of lost candidates, in words that follow a number of candidates."""

    SLOW = "not fast enough"
    BEHIND = "behind in the race"
    NOT_CHOSEN = "not chosen"
    WORSE = "too far from the source's results"
    GATE = "fast enough, but failed another gate"
    WITHHELD = "fast enough, but may not be published"
    UNDECIDED = "not decided"
    REFUSED = "refused"
    FAILED = "failed"
    NOT_TRIED = "not tried"


_OF_VALIDATION: Final = {
    Status.DROPPED: Cause.WORSE,
    Status.REFUSED: Cause.REFUSED,
    Status.FAILED: Cause.FAILED,
    Status.NOT_TRIED: Cause.NOT_TRIED,
}
_OF_STANDING: Final = {
    Status.MEASURED: Cause.BEHIND,
    Status.DROPPED: Cause.BEHIND,
    Status.REFUSED: Cause.REFUSED,
    Status.FAILED: Cause.FAILED,
    Status.NOT_TRIED: Cause.NOT_TRIED,
}
_OF_SPEED: Final = {Faster.YES: Cause.GATE, Faster.NO: Cause.SLOW}
_STEPS: Final = {
    Cause.SLOW: "toolchains that the recipe does not select, or the shapes and threads of production",
    Cause.BEHIND: "toolchains that the recipe does not select, or the shapes and threads of production",
    Cause.WORSE: "calibration rows more like the model's data, or a larger hone.gates.drop where that is acceptable",
    Cause.GATE: "a larger limit of the gate that they missed, where that is acceptable: the report lists by how much",
    Cause.REFUSED: "toolchains that the recipe does not select: the report lists why the selected ones do not take "
    "the model",
    Cause.FAILED: "to correct the causes that the report lists, with the logs of the steps",
}


def explain(race: RaceResult, confirmation: Confirmation, *, withheld: Collection[str] = ()) -> list[str]:
    """Return the number of candidates lost for each cause, and a remedy for the most frequent one.

    Args:
        race: The candidates, and their results in the race.
        confirmation: The finalists.
        withheld: Candidates that are fast enough but may not be published.

    Returns:
        The counts, the most frequent reason of refusals if no cause is more frequent than these, and a remedy for each
        of the most frequent causes, if any; empty if there is no candidate.
    """
    counts = count_causes(race, confirmation, withheld=withheld)
    if not counts:
        return []
    listed = ", ".join(f"{number} {cause}" for cause, number in counts.most_common())
    total = counts.total()
    found = [f"of {total} candidates: {listed}" if total > 1 else f"the one candidate: {listed.removeprefix('1 ')}"]
    most = max(counts.values())
    steps = dict.fromkeys(_STEPS[cause] for cause, number in counts.items() if number == most and cause in _STEPS)
    refusals = _describe_refusals(race) if counts[Cause.REFUSED] == most else []
    return [*found, *refusals, *(f"what may help: {step}" for step in steps)]


def _describe_refusals(race: RaceResult) -> list[str]:
    """Return how many candidates were refused for the most frequent reason, and that reason."""
    reasons = Counter(one.reason for one in race.validations if one.status is Status.REFUSED and one.reason)
    return [f"{number} refused because: {reason}" for reason, number in reasons.most_common(1)]


def count_causes(race: RaceResult, confirmation: Confirmation, *, withheld: Collection[str] = ()) -> Counter[Cause]:
    """Return how many candidates were lost for each cause."""
    standings = {standing.id: standing for standing in race.standings}
    finalists = {finalist.id: finalist for finalist in confirmation.finalists}
    counts: Counter[Cause] = Counter()
    for validation in race.validations:
        name = validation.candidate.id
        if validation.status is not Status.MEASURED:
            counts[_OF_VALIDATION[validation.status]] += 1
        elif name in withheld:
            counts[Cause.WITHHELD] += 1
        elif name in finalists:
            counts[_find_cause_of_finalist(finalists[name], confirmation)] += 1
        else:
            counts[_find_cause_of_raced(standings.get(name), race)] += 1
    return counts


def _find_cause_of_finalist(finalist: Finalist, confirmation: Confirmation) -> Cause:
    """Return why a finalist was lost; one without a verdict failed, unless the confirmation ended before it."""
    if finalist.verdict:
        return _OF_SPEED.get(Faster(finalist.verdict), Cause.UNDECIDED)
    return Cause.UNDECIDED if confirmation.cut and finalist.reason == confirmation.cut else Cause.FAILED


def _find_cause_of_raced(standing: Standing | None, race: RaceResult) -> Cause:
    """Return why a valid candidate is not a finalist; without a standing, it did not race."""
    if standing is None:
        return Cause.NOT_TRIED
    if race.choice is not None and standing.status in RACED:
        return Cause.NOT_CHOSEN
    return _OF_STANDING[standing.status]
