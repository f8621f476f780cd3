"""Which of several finalists is the best, where all were measured in the same launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core.stats.intervals import Floats, interval_of_ratios
from kedro_hone.core.stats.speed import combine_shapes

Ratios = Mapping[str, Floats]
"""Source time over candidate time, by shape, one for each launch."""
Objective = NDArray[np.float64]
"""The same of one candidate, combined over the shapes."""
Loss = tuple[float, ...]
"""What a candidate loses against the source, the most important first: less is better."""
_FEWEST: Final = 3
"""Launches: the interval of two is so wide that it would tie a candidate with one of half its speed."""


def rank_finalists(
    finalists: Mapping[str, Ratios],
    *,
    objective: str = "worst",
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    losses: Mapping[str, Loss] | None = None,
) -> list[str]:
    """Return the names, best first: by the objective, then by the mean over shapes, then by what they lose.

    Each counts only where the launches cannot tell two apart by the one before.

    Two are compared by the ratios of their objectives in the launches that both took part in: what the source's own
    time adds to both cancels (paired comparison: G. Box, J. Hunter and W. Hunter, "Statistics for experimenters", 2005,
    chapter 3). The interval only orders: nothing is claimed of it. From the leader on, those that cannot be told from
    it go by the geometric mean over all shapes, since a lead at one shape must not be lost to noise at another; and
    those of them that cannot be told from the best by that mean go by their losses, since speed that nobody can measure
    is worth no accuracy.

    Args:
        finalists: Those with at least one launch.
        objective: As ``combine_shapes`` takes it.
        weights: Those of the shapes, for the objective ``mean``.
        confidence: Of the intervals.
        losses: What each loses against the source, less is better; nothing where it is not named.
    """
    of_mean = weights if objective == "mean" else None
    objectives = {name: combine_shapes(ratios, objective, weights) for name, ratios in finalists.items()}
    means = {name: combine_shapes(ratios, "mean", of_mean) for name, ratios in finalists.items()}

    def rank_tied(names: list[str]) -> list[str]:
        return sorted(names, key=lambda name: ((losses or {}).get(name, ()), -_average(means[name]), name))

    def rank_by_mean(names: list[str]) -> list[str]:
        return [name for tied in _group(names, means, confidence) for name in rank_tied(tied)]

    return [name for tied in _group([*finalists], objectives, confidence) for name in rank_by_mean(tied)]


def _group(names: list[str], ratios: Mapping[str, Objective], confidence: float) -> Iterator[list[str]]:
    """Yield the names by groups, fastest first: the leader of those that are left, with all that are tied with it."""
    left = sorted(names, key=lambda name: (-_average(ratios[name]), name))
    while left:
        tied = [name for name in left if name == left[0] or _is_tied(ratios[name], ratios[left[0]], confidence)]
        yield tied
        left = [name for name in left if name not in tied]


def _is_tied(one: Objective, other: Objective, confidence: float) -> bool:
    """Return whether the launches that both took part in, the first ones, cannot tell two apart; two say too little."""
    n = min(len(one), len(other))
    if n < _FEWEST:
        return False
    interval = interval_of_ratios(one[:n] / other[:n], confidence=confidence)
    return interval.low <= 1.0 <= interval.high


def _average(ratios: Objective) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratios).mean()))
