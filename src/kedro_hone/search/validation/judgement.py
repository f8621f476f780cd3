"""Why a candidate's outputs on the search split are not good enough, by all comparisons there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from hone_runtime.values.measurement import Quality
from kedro_hone.search.comparison.agreement import Difference
from kedro_hone.search.comparison.disagreement import find_disagreement
from kedro_hone.search.validation.probe_outputs import Found, Shares

LARGEST_UNSCORED = 0.5
"""The allowed difference from the source on rows without scores, relative to the source's largest output."""


def find_worst(scores: Mapping[str, Quality]) -> Quality:
    """Return the score with the largest drop."""
    return max(scores.values(), key=lambda one: one.drop.estimate)


def find_fall(scores: Mapping[str, Quality], found: Found) -> str:
    """Return which metric certainly dropped by more than the recipe allows, and where, or an empty string.

    It includes the output that is least similar to the source's, with its part; or a part with one constant value.
    """
    constant = next((f"{one.constant} in it" for each in found.values() for one in each if one.constant), "")
    worst = find_worst(scores)
    ordered = sorted(scores.items(), key=lambda item: item[1] is not worst)
    for place, each in (*ordered[:1], *((where, other) for where, one in ordered for other in one.others)):
        if each.limit is not None and each.drop.low > each.limit:
            fell = f"{each.metric} on the search split fell from {each.source:.4f} to {each.candidate:.4f} at {place}"
            cause = constant or _explain_furthest(found.get(place, ()))
            return "; ".join(filter(None, (fell, f"the recipe allows {each.limit:g}", cause)))
    return ""


def _explain_furthest(differences: Sequence[Difference]) -> str:
    one = max((each for each in differences if each.rows), key=lambda each: each.distance, default=None)
    return "" if one is None else f"{one.furthest} is the least like the source's: {one.example}"


def find_conflict(found: Found, scores: Mapping[str, Quality], shares: Shares, *, labelled: bool) -> str:
    """Return where an output does not agree with the source's as required, or an empty string."""
    scored = find_worst(scores).scored
    conflicts = (
        (where, find_disagreement(each, scored=scored, labelled=labelled, **shares)) for where, each in found.items()
    )
    return next((f"at {where}: {reason}" for where, reason in conflicts if reason), "")


def find_wrong(found: Found, scores: Mapping[str, Quality], *, trained: bool = False) -> str:
    """Return where outputs that were not scored differ too much from the source's, or an empty string.

    They may differ as much as on the scored rows, for which the score passed. A network that was ``trained`` computes
    something else in single rows, so the mean over the rows counts.
    """
    measure: Callable[[Difference], float] = attrgetter("distance" if trained else "largest")
    errors = {where: max(map(measure, each), default=0.0) for where, each in found.items()}
    allowed = max(LARGEST_UNSCORED, *(errors[where] for where in scores))
    unscored = {where: error for where, error in errors.items() if where not in scores}
    where, error = max(unscored.items(), key=lambda item: item[1], default=("", 0.0))
    if error <= allowed:
        return ""
    worst = max(found[where], key=measure)
    what = "in the mean" if trained else "up to"
    whole = "length of the source's row" if trained else "source's largest value"
    away = f"is {what} {error:.3g} times the {whole} away from it"
    return f"at {where}, {worst.output} {away}, and {allowed:.3g} is allowed: {worst.example}"
