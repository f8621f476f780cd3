"""Provability: whether the gate split can probably prove what a candidate lost on the search split.

A candidate that is faster, and whose drop the gate's rows probably cannot bound by the limit, ends in no verdict.
So one of the finalists is a candidate that probably can be proved, however much faster others are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

from hone_runtime.values.measurement import Quality, Validation, is_bounded
from hone_runtime.values.samples import GATE, SEARCH
from kedro_hone.core.stats.balanced import Stratum, interval_of_balanced_accuracy
from kedro_hone.core.stats.intervals import interval_of_paired_proportions
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.search.context import RunContext

_TWO_SIDED: Final = 2.0
"""About how many standard errors an interval has on either side."""


def is_provable(validation: Validation, context: RunContext) -> bool:
    """Return whether each drop on the gate split will probably be bounded by its limit.

    That is so if the interval lies under the limit when the gate split repeats the drop of the search split and one
    standard error of it: the chance is then about five in six or more. Without a score or a gate split it is not known,
    and true is returned.
    """
    quality = validation.quality
    if quality is None or not {SEARCH, GATE} <= context.samples.splits.keys():
        return True
    splits = context.samples.splits
    scale = splits[GATE].n / splits[SEARCH].n
    gates = context.recipe.gates
    level = share_confidence(gates.confidence, finalists=context.recipe.confirm.finalists)
    limits = (gates.drop, *gates.drops.values())
    return all(
        predict_end(one, scale=scale, confidence=level) < limit
        for one, limit in zip((quality, *quality.others), limits, strict=False)  # others may be of another recipe
    )


def choose_finalists(ranked: Sequence[str], safe: Collection[str], *, count: int) -> list[str]:
    """Return the first ``count`` candidates; if none of them is safe, the last place is for the first that is."""
    first = [*ranked[:count]]
    best = next((name for name in ranked if name in safe), None)
    return first if best is None or best in first else [*first[:-1], best]


def predict_end(quality: Quality, *, scale: float, confidence: float) -> float:
    """Return the upper end of the drop's interval on the gate split, from the drop on the search split.

    One standard error of that drop is added to it. Counts of rows have the error of a Poisson distribution.

    Args:
        quality: A metric on the search split.
        scale: The rows of the gate split over those of the search split.
        confidence: Of the gate's interval. For a metric that is not counted, the interval of the search split is
            scaled by the square root of the rows instead, as its width is of the mean of so many rows. The least width
            of an interval is scaled by the rows.
    """
    if quality.kind == "proportion" and quality.lost is not None and quality.gained is not None:
        rows = _scale(quality.n, quality.lost, quality.gained, scale=scale)
        return interval_of_paired_proportions(n=rows.n, lost=rows.lost, gained=rows.gained, confidence=confidence).high
    if quality.classes:
        strata = [_scale(one.n, one.lost, one.gained, scale=scale) for one in quality.classes]
        return interval_of_balanced_accuracy(strata, confidence=confidence).high
    if not is_bounded(quality.drop.high):  # too few rows of the search split for an interval: its width is not known
        return quality.drop.estimate
    estimate, width = quality.drop.estimate, quality.drop.high - quality.drop.estimate
    if quality.provable is not None and width <= quality.provable:  # nothing is lost but by noise
        return estimate + width / scale
    return estimate + width / _TWO_SIDED + width / math.sqrt(scale)


def _scale(n: int, lost: float, gained: float, *, scale: float) -> Stratum:
    rows = max(1, round(n * scale))
    fewer = min(rows, round((lost + math.sqrt(lost + gained)) * scale))
    return Stratum(n=rows, lost=fewer, gained=min(rows - fewer, round(gained * scale)))
