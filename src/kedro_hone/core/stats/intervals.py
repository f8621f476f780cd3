"""Intervals of speed ratios and of metrics, and of paired proportions: rows that only one of two predicts correctly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hone_runtime.values.measurement import Interval
from kedro_hone.core.stats.levels import find_t, find_z

Floats = Sequence[float] | NDArray[np.float64]
UNITS = 20
"""The fewest units (rows, images, documents) from which an interval of a metric is made."""

_LARGEST = 709.0
"""The logarithm of about the largest float."""


def interval_of_ratios(ratios: Floats, *, confidence: float) -> Interval:
    """How many times faster the candidate is, from one ratio for each launch, or for each round of a race.

    Student's t on the logarithms, since launches differ by factors. They differ far more than the rounds within them,
    so a result needs one ratio for each launch (``ratio_in_launch``): more rounds make no independent sample. The
    interval of one launch's rounds ignores these differences: use it to drop candidates in a race, never for a result.

    Returns the geometric mean of the ratios (source over candidate, paired in time; above 1 the candidate is faster)
    and its interval. An upper end beyond the range of a float becomes the largest float (``is_bounded``).

    Raises:
        ValueError: Fewer than two ratios, or one that is not positive and finite.
    """
    middle, half = _find_half_width(np.log(check_positive(ratios, "ratios").ravel()), confidence)
    low, high = math.exp(middle - half), math.exp(min(middle + half, _LARGEST))
    return Interval(estimate=math.exp(middle), low=low, high=high, confidence=confidence)


def check_positive(values: Floats, what: str) -> NDArray[np.float64]:
    """Return numbers as an array, or raise a ``ValueError`` if one is not positive and finite."""
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"{what} are positive and finite")
    return array


def interval_of_mean(differences: Floats, *, confidence: float, span: float = 1.0) -> Interval:
    """The mean of one difference for each row, such as source score minus candidate score; positive is worse.

    Student's t, but at least as wide as Tango's interval of paired proportions. There, a row that differs by d counts
    as ``(d / span)²`` rows lost or gained, which is its share of the variance. So if each row loses the span or
    nothing, the interval is that of rows that are right or wrong. If the differences are only noise, Student's t is too
    narrow: unseen rows may still lose the span, and n rows cannot exclude a share ``z²/(n+z²)`` of such rows. So the
    ends are at least that far from the estimate, whatever the differences. The span is the largest possible difference
    of one row: 1 for scores between 0 and 1. A larger observed difference replaces it.

    Raises:
        ValueError: Fewer than 20 rows, a difference that is not finite, or a span that is not positive.
    """
    rows = _check_units(differences, "differences", span)
    middle, half = _find_half_width(rows, confidence)
    span = max(span, float(np.abs(rows).max()))
    weights = (rows / span) ** 2
    lost, gained = float(weights[rows > 0].sum()), float(weights[rows < 0].sum())
    few = interval_of_paired_proportions(n=rows.size, lost=lost, gained=gained, confidence=confidence)
    low = middle - max(half, span * (few.estimate - few.low))
    high = middle + max(half, span * (few.high - few.estimate))
    return Interval(estimate=middle, low=low, high=high, confidence=confidence)


def interval_of_bootstrap(
    replicates: Floats, estimate: float, *, confidence: float, n: int, span: float = 1.0
) -> Interval:
    """The interval of a metric that is not a mean over rows, from its values on (some thousand) resamples of n units.

    Percentiles of the replicates, at a wider level. It corrects a bootstrap of n units, which is too narrow by
    ``sqrt((n - 1) / n)`` and by the normal's tails against Student's (Hesterberg 2015, *Am. Stat.* 69:371-386,
    "expanded percentile interval"). The estimate is always within, and the interval is at least as wide as that of
    paired proportions, as for a mean (``interval_of_mean``). The variance of the replicates determines how many units
    differ by the span; half of them count as lost and half as gained. If nothing changed, or only by noise, this proves
    only that fewer than a share of about ``4 / n`` of the units differ. The span is the largest drop that the metric
    can have: 1 for metrics between 0 and 1.

    Raises:
        ValueError: Fewer than 20 units or replicates, one that is not finite, or a span that is not positive.
    """
    values = _check_units(replicates, "replicates", span)
    if not math.isfinite(estimate):
        raise ValueError(f"an estimate is finite, not {estimate!r}")
    if n < UNITS:
        raise ValueError(f"a bootstrap needs {UNITS} units at least, not {n}")
    units = min(float(n), float((n * (values / span).std()) ** 2))  # from the variance of the replicates
    few = interval_of_paired_proportions(n=n, lost=units / 2, gained=units / 2, confidence=confidence)
    tail = math.erfc(math.sqrt(n / (n - 1)) * find_t(confidence, n - 1) / math.sqrt(2)) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    low, high = min(float(low), estimate - span * few.high), max(float(high), estimate + span * few.high)
    return Interval(estimate=estimate, low=low, high=high, confidence=confidence)


def interval_of_paired_proportions(*, n: int, lost: float, gained: float, confidence: float) -> Interval:
    """How much lower the candidate's share of right predictions is than the source's, ``(lost - gained) / n``.

    Of n rows, only the source predicts the lost ones correctly, and only the candidate the gained ones; a row with a
    graded score counts as a fraction. Tango's score interval (Tango 1998, *Statistics in Medicine* 17:891-908): all
    drops that the score test, with the other cell at its maximum likelihood under that drop, does not reject. It
    remains valid if nothing was lost and nothing gained: the interval is then ``[-z²/(n+z²), z²/(n+z²)]``, while Wald's
    and a bootstrap's are [0, 0]. The error rate of the upper end alone is half of one minus the confidence.

    Raises:
        ValueError: No rows, or counts that do not fit into them.
    """
    if n < 1 or lost < 0 or gained < 0 or lost + gained > n:
        raise ValueError(f"{lost} lost and {gained} gained are not counts among {n} rows")
    z = find_z(confidence)
    return Interval(
        estimate=(lost - gained) / n,
        low=-_find_upper_end(n, gained, lost, z),
        high=_find_upper_end(n, lost, gained, z),
        confidence=confidence,
    )


def _find_upper_end(n: int, lost: float, gained: float, z: float) -> float:
    """The drop above the estimate from which the score test rejects."""
    if lost == n:
        return 1.0
    if lost == gained == 0:  # the variance vanishes at the estimate; this and the next are the roots in closed form
        return z**2 / (n + z**2)
    if gained == n:
        return (z**2 - n) / (z**2 + n)

    def exceed(drop: float) -> float:
        b = -lost - gained + (2 * n - lost + gained) * drop
        root = math.sqrt(max(0.0, b**2 + 8 * n * gained * drop * (1 - drop)))
        only_gained = (root - b) / (4 * n)  # its probability, at its most likely under this drop
        return (lost - gained - n * drop) ** 2 - z**2 * n * (2 * only_gained + drop * (1 - drop))

    from scipy import optimize  # noqa: PLC0415 - half a second, which no command but a run needs

    return float(optimize.brentq(exceed, (lost - gained) / n, 1.0, xtol=1e-13))


def smallest_provable_drop(n: int, confidence: float) -> float:
    """The smallest drop that n rows can prove: the upper end of the interval if no row is lost and none gained.

    It is ``z²/(n+z²)``: 3.84/n for many rows at 95 %, a little above the exact 3.69/n. The confidence is the one that
    the gate will use, after sharing it among the finalists. With a limit (a share of the rows) that is not above it,
    even the source itself could not pass: the run must report this before it starts.

    Raises:
        ValueError: No rows.
    """
    return interval_of_paired_proportions(n=n, lost=0, gained=0, confidence=confidence).high


def needed_rows(limit: float, confidence: float) -> int:
    """The fewest rows with a ``smallest_provable_drop`` under a limit.

    A gate split of that size allows no lost row; use a few times as many rows.

    Raises:
        ValueError: A limit of 0 or below, which no number of rows can prove.
    """
    if not limit > 0:
        raise ValueError(f"no number of rows proves a drop under {limit!r}")
    n = max(1, math.floor(find_z(confidence) ** 2 * (1 - limit) / limit))
    return n if smallest_provable_drop(n, confidence) < limit else n + 1


def _find_half_width(values: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """The mean and the half-width of its interval by Student's t."""
    if values.size < 2:
        raise ValueError(f"an interval needs two values at least, not {values.size}")
    half = find_t(confidence, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(values.mean()), half


def _check_units(values: Floats, what: str, span: float) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size < UNITS:
        raise ValueError(f"an interval of a metric needs {UNITS} {what} at least, not {array.size}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} are finite")
    if not span > 0:
        raise ValueError(f"a span is positive, not {span!r}")
    return array
