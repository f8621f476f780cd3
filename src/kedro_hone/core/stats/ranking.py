"""Ranks several finalists that were all measured in the same launches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core.stats.intervals import Floats, interval_of_ratios
from kedro_hone.core.stats.speed import combine_shapes

Ratios = Mapping[str, Floats]
"""Source time over candidate time, by shape, one for each launch."""
Objective = NDArray[np.float64]
"""The same ratios of one candidate, combined over the shapes."""
Loss = tuple[float, ...]
"""The losses of a candidate against the source, the most important first: less is better."""
AS_FAST: Final = 1.05
"""Losses decide between two candidates if their mean speeds differ by no more: a few noisy launches tie more than that.
"""
_FEWEST: Final = 3
"""The fewest launches: the interval of two launches is so wide that it would tie a candidate with one of half its
speed."""


def rank_finalists(
    finalists: Mapping[str, Ratios],
    *,
    objective: str = "worst",
    weights: Mapping[str, float] | None = None,
    shapes: Collection[str] = (),
    confidence: float = 0.95,
    losses: Mapping[str, Loss] | None = None,
) -> list[str]:
    """Return the names, best first: by the objective, then by the mean over shapes, then by their losses.

    Each criterion counts only for two finalists that the launches cannot distinguish by the one before.

    Two finalists are compared by the ratios of their objectives in the launches in which both were measured. The
    source's time cancels if both objectives are over the same shapes (paired comparison: G. Box, J. Hunter and W.
    Hunter, "Statistics for experimenters", 2005, chapter 3). The interval is only used for the order: it proves
    nothing. No finalist is ranked before one that is certainly faster. Finalists that no other is certainly faster than
    are ordered in the same way by the geometric mean over all shapes. So a lead at one shape is not lost to noise at
    another. If this cannot distinguish them either, those within ``AS_FAST`` of the best are ordered by their losses: a
    gain in speed that cannot be measured is not worth any accuracy.

    Args:
        finalists: Those with at least one launch.
        objective: As for ``combine_shapes``.
        weights: The weights of the shapes, for the objective ``mean``.
        shapes: The shapes that the objective ``worst`` is over; all if empty.
        confidence: Of the intervals.
        losses: The losses of each against the source, less is better; no loss if a name is missing.
    """
    of_mean = weights if objective == "mean" else None
    objectives = {name: combine_shapes(ratios, objective, weights, shapes=shapes) for name, ratios in finalists.items()}
    means = {name: combine_shapes(ratios, "mean", of_mean) for name, ratios in finalists.items()}
    left, ranked = sorted(finalists), list[str]()
    while left:
        first = _select_unbeaten(_select_unbeaten(left, objectives, confidence), means, confidence)
        common = min(len(means[name]) for name in first)
        speeds = {name: _average(means[name][:common]) for name in first}
        near = [name for name in first if speeds[name] * AS_FAST >= max(speeds.values())]
        ranked.append(min(near, key=lambda name: ((losses or {}).get(name, ()), -speeds[name])))
        left.remove(ranked[-1])
    return ranked


def _select_unbeaten(names: list[str], ratios: Mapping[str, Objective], confidence: float) -> list[str]:
    """Return the names that no other one is certainly faster than; all of them if each is beaten by another."""
    beaten = {one for one, other in permutations(names, 2) if _compare(ratios[one], ratios[other], confidence) < 0}
    return [name for name in names if name not in beaten] or names


def _compare(one: Objective, other: Objective, confidence: float) -> int:
    """Return 1 if one is faster than the other in their common launches (the first ones), -1 if slower, 0 if tied.

    With too few launches, the means decide.
    """
    n = min(len(one), len(other))
    if n < _FEWEST:
        return 1 if _average(one[:n]) > _average(other[:n]) else -1
    interval = interval_of_ratios(one[:n] / other[:n], confidence=confidence)
    return int(interval.low > 1.0) - int(interval.high < 1.0)


def _average(ratios: Objective) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratios).mean()))
