"""Which of several finalists is the best, where all were measured in the same launches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kedro_hone.core.stats.intervals import Floats, interval_of_ratios
from kedro_hone.core.stats.speed import combine_shapes

Ratios = Mapping[str, Floats]
"""Source time over candidate time, by shape, one for each launch."""


def rank_finalists(
    finalists: Mapping[str, Ratios],
    *,
    objective: str = "worst",
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
) -> list[str]:
    """Return the names, best first: by the objective where the launches tell two apart, else by the mean over shapes.

    Two are compared by the ratios of their objectives in the launches that both took part in: what the source's own
    time adds to both cancels (paired comparison: G. Box, J. Hunter and W. Hunter, "Statistics for experimenters", 2005,
    chapter 3). The interval only orders: nothing is claimed of it. From the leader on, those that cannot be told from
    it go by the geometric mean over all shapes, since a lead at one shape must not be lost to noise at another.

    Args:
        finalists: Those with at least one launch.
        objective: As ``combine_shapes`` takes it.
        weights: Those of the shapes, for the objective ``mean``.
        confidence: Of the intervals.
    """

    def score(name: str) -> float:
        return _average(combine_shapes(finalists[name], objective, weights))

    def is_tied(name: str, leader: str) -> bool:
        pair = [combine_shapes(finalists[one], objective, weights) for one in (name, leader)]
        n = min(map(len, pair))
        if name == leader or n < 2:
            return name == leader
        interval = interval_of_ratios(pair[0][:n] / pair[1][:n], confidence=confidence)
        return interval.low <= 1.0 <= interval.high

    of_mean = weights if objective == "mean" else None
    left = sorted(finalists, key=lambda name: (-score(name), name))
    ranked: list[str] = []
    while left:
        tied = [name for name in left if is_tied(name, left[0])]
        ranked += sorted(tied, key=lambda name: (-_average(combine_shapes(finalists[name], "mean", of_mean)), name))
        left = [name for name in left if name not in tied]
    return ranked


def _average(ratios: Floats) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(np.asarray(ratios)).mean()))
