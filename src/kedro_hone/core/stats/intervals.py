"""Intervals of speed ratios and of metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core.stats.levels import find_t
from kedro_hone.core.stats.proportions import interval_of_paired_proportions
from kedro_hone.core.values.measurement import Interval

Floats = Sequence[float] | NDArray[np.float64]
UNITS = 20
"""The fewest units (rows, images, documents) from which an interval of a metric is made."""

_LARGEST = 709.0
"""The logarithm of about the largest float."""


def interval_of_ratios(ratios: Floats, *, confidence: float) -> Interval:
    """How many times faster the candidate is, from one ratio for each launch, or for each round of a race.

    Student's t on the logarithms, since launches differ by factors. They differ far more than the rounds within them,
    so a result needs one ratio for each launch (``ratio_in_launch``): more rounds make no independent sample. The
    interval of one launch's rounds knows nothing of that; it is good for dropping candidates on the way, never for a
    result.

    Returns the geometric mean of the ratios (source over candidate, paired in time; above 1 the candidate is faster)
    and its interval. An upper end that no float can hold is the largest one (``is_bounded``).

    Raises:
        ValueError: Fewer than two ratios, or one that is not positive and finite.
    """
    middle, half = _find_half_width(np.log(check_positive(ratios, "ratios").ravel()), confidence)
    low, high = math.exp(middle - half), math.exp(min(middle + half, _LARGEST))
    return Interval(estimate=math.exp(middle), low=low, high=high, confidence=confidence)


def check_positive(values: Floats, what: str) -> NDArray[np.float64]:
    """Return numbers as an array, or raise a ``ValueError`` where one is not positive and finite."""
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"{what} are positive and finite")
    return array


def interval_of_mean(differences: Floats, *, confidence: float, span: float = 1.0) -> Interval:
    """The mean of one difference for each row, such as source score minus candidate score; positive is worse.

    Student's t, but at least as wide as Tango's interval of paired proportions, in which a row that differs by d counts
    as ``(d / span)²`` rows lost or gained: what it adds to the variance. So rows that lose the span or nothing have the
    interval of rows that are right or wrong. Where the differences are noise, t is too sure of itself: rows that were
    not seen may still lose the span, and n rows cannot exclude a share ``z²/(n+z²)`` of them. The ends reach as far
    beyond the estimate, whatever the differences. The span is the largest difference that one row can have: 1 for
    scores between 0 and 1. A larger one that was seen takes its place.

    Raises:
        ValueError: Fewer than 20 rows, a difference that is not finite, or a span that is not positive.
    """
    rows = _check_units(differences, "differences")
    middle, half = _find_half_width(rows, confidence)
    span = max(_check_span(span), float(np.abs(rows).max()))
    weights = (rows / span) ** 2
    lost, gained = float(weights[rows > 0].sum()), float(weights[rows < 0].sum())
    few = interval_of_paired_proportions(n=rows.size, lost=lost, gained=gained, confidence=confidence)
    low = middle - max(half, span * (few.estimate - few.low))
    high = middle + max(half, span * (few.high - few.estimate))
    return Interval(estimate=middle, low=low, high=high, confidence=confidence)


def interval_of_bootstrap(
    replicates: Floats, estimate: float, *, confidence: float, n: int, span: float = 1.0
) -> Interval:
    """The interval of a metric that is no mean over rows, from its values on (some thousand) resamples of n units.

    Percentiles of the replicates, at the wider level that makes up for a bootstrap of n units being too narrow by
    ``sqrt((n - 1) / n)`` and by the normal's tails against Student's (Hesterberg 2015, *Am. Stat.* 69:371-386,
    "expanded percentile interval"). The estimate is always within, and the interval is at least as wide as that of
    paired proportions, as for a mean (``interval_of_mean``): the variance of the replicates says how many units differ
    by the span, half of them counted as lost and half as gained. "Nothing changed" is no proof of no change, only of a
    change in fewer than about ``4 / n`` units, and neither is a change by noise. The span is the largest drop that the
    metric can have: 1 for metrics between 0 and 1.

    Raises:
        ValueError: Fewer than 20 units or replicates, one that is not finite, or a span that is not positive.
    """
    values = _check_units(replicates, "replicates")
    if not math.isfinite(estimate):
        raise ValueError(f"an estimate is finite, not {estimate!r}")
    if n < UNITS:
        raise ValueError(f"a bootstrap needs {UNITS} units at least, not {n}")
    units = min(float(n), float((n * (values / _check_span(span)).std()) ** 2))  # from the variance of the replicates
    few = interval_of_paired_proportions(n=n, lost=units / 2, gained=units / 2, confidence=confidence)
    tail = math.erfc(math.sqrt(n / (n - 1)) * find_t(confidence, n - 1) / math.sqrt(2)) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    low, high = min(float(low), estimate - span * few.high), max(float(high), estimate + span * few.high)
    return Interval(estimate=estimate, low=low, high=high, confidence=confidence)


def _check_span(span: float) -> float:
    if not span > 0:
        raise ValueError(f"a span is positive, not {span!r}")
    return span


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
