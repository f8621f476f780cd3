"""Intervals of speed ratios and of metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core.stats.levels import check_confidence, find_t
from kedro_hone.core.stats.proportions import interval_of_paired_proportions, smallest_provable_drop
from kedro_hone.core.values.measurement import Interval

Floats = Sequence[float] | NDArray[np.float64]
UNITS = 20
"""The fewest units (rows, images, documents) from which an interval of a metric is made."""


def interval_of_ratios(ratios: Floats, *, confidence: float) -> Interval:
    """How many times faster the candidate is, from one ratio for each launch, or for each round of a race.

    Student's t on the logarithms, since launches differ by factors. They differ far more than the rounds within them,
    so a result needs one ratio for each launch (``ratio_in_launch``): more rounds make no independent sample. The
    interval of one launch's rounds knows nothing of that; it is good for dropping candidates on the way, never for a
    result.

    Returns the geometric mean of the ratios (source over candidate, paired in time; above 1 the candidate is faster)
    and its interval.

    Raises:
        ValueError: Fewer than two ratios, or one that is not positive and finite.
    """
    values = np.asarray(ratios, dtype=np.float64).ravel()
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError("ratios are positive and finite")
    middle, half = _find_half_width(np.log(values), confidence)
    low, high = math.exp(middle - half), math.exp(middle + half)
    return Interval(estimate=math.exp(middle), low=low, high=high, confidence=confidence)


def interval_of_mean(differences: Floats, *, confidence: float, span: float = 1.0) -> Interval:
    """The mean of one difference for each row, such as source score minus candidate score.

    Student's t, if 20 rows at least differ at all. Where fewer do, the mean rests on those few and t is too sure of
    itself (nothing differs: [0, 0]); then the ends reach at least as far as the interval of paired proportions, of rows
    that got worse and rows that got better, times the largest difference that one row showed.

    Args:
        differences: One for each row, positive is worse.
        confidence: The two-sided level.
        span: The largest difference that one row can have, used when no row differs: 1 for scores between 0 and 1.

    Raises:
        ValueError: Fewer than 20 rows, or a difference that is not finite.
    """
    rows = _check_units(differences, "differences")
    middle, half = _find_half_width(rows, confidence)
    worse, better = int((rows > 0).sum()), int((rows < 0).sum())
    low, high = middle - half, middle + half
    if worse + better < UNITS:
        few = interval_of_paired_proportions(n=rows.size, lost=worse, gained=better, confidence=confidence)
        scale = float(np.abs(rows).max()) or span
        low, high = min(low, few.low * scale), max(high, few.high * scale)
    return Interval(estimate=middle, low=low, high=high, confidence=confidence)


def interval_of_bootstrap(
    replicates: Floats, estimate: float, *, confidence: float, n: int | None = None, span: float = 1.0
) -> Interval:
    """The interval of a metric that is no mean over rows, from its values on resampled rows.

    Percentiles of the replicates, at the wider level that makes up for a bootstrap of n units being too narrow by
    ``sqrt((n - 1) / n)`` and by the normal's tails against Student's (Hesterberg 2015, *Am. Stat.* 69:371-386,
    "expanded percentile interval"). The estimate is always within.

    Args:
        replicates: The metric, or the drop of a metric, on each resample; some thousands.
        estimate: The same on the rows themselves.
        confidence: The two-sided level.
        n: How many units were resampled, if known.
        span: The largest drop that the metric can have, used when all replicates are equal: 1 for metrics between 0
            and 1. "Nothing changed" is no proof of no change, only of a change in fewer than about ``4 / n`` units.

    Raises:
        ValueError: Fewer than 20 units or replicates, one that is not finite, or all are equal and n is not given.
    """
    check_confidence(confidence)
    values = _check_units(replicates, "replicates")
    if not math.isfinite(estimate):
        raise ValueError(f"an estimate is finite, not {estimate!r}")
    if n is not None and n < UNITS:
        raise ValueError(f"a bootstrap needs {UNITS} units at least, not {n}")
    if np.ptp(values) == 0:
        if n is None:
            raise ValueError("all replicates are equal: without the number of units there is no interval")
        reach = span * smallest_provable_drop(n, confidence)
        low, high = values[0] - reach, values[0] + reach
    else:
        tail = (1 - confidence) / 2 if n is None else _expand_tail(confidence, n)
        low, high = np.quantile(values, (tail, 1 - tail))
    low, high = min(float(low), estimate), max(float(high), estimate)
    return Interval(estimate=estimate, low=low, high=high, confidence=confidence)


def _expand_tail(confidence: float, n: int) -> float:
    return math.erfc(math.sqrt(n / (n - 1)) * find_t(confidence, n - 1) / math.sqrt(2)) / 2


def _find_half_width(values: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """The mean and what Student's t puts on either side of it."""
    if values.size < 2:
        raise ValueError(f"an interval needs two values at least, not {values.size}")
    half = find_t(confidence, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(values.mean()), half


def _check_units(values: Floats, what: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size < UNITS:
        raise ValueError(f"an interval of a metric needs {UNITS} {what} at least, not {array.size}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} are finite")
    return array
