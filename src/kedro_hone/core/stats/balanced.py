"""Intervals of the balanced accuracy: the mean over classes of the share of right rows of each class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hone_runtime.values.measurement import Interval
from kedro_hone.core.stats.intervals import interval_of_paired_proportions, needed_rows


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """The rows of one class.

    Attributes:
        n: Their number.
        lost: How many only the source predicts correctly.
        gained: How many only the candidate predicts correctly.
    """

    n: int
    lost: float = 0.0
    gained: float = 0.0


def interval_of_balanced_accuracy(strata: Sequence[Stratum], *, confidence: float) -> Interval:
    """How much lower the candidate's balanced accuracy is than the source's, from the rows of each class.

    The classes are independent samples, each with Tango's interval of its paired proportions. These are combined by the
    method of variance estimates recovery (Zou, Huang and Zhang 2009, *Comput. Stat. Data Anal.* 53:1080-1085, for
    linear functions of proportions; "square and add" in Newcombe 1998, *Stat. Med.* 17:873-890): the distance of an end
    from the estimate is the root of the sum of the classes' squared distances, each divided by the number of classes.
    So an end is never closer than that of the class with the fewest rows alone, also if nothing was lost.

    Raises:
        ValueError: There is no class, or counts do not fit into its rows.
    """
    if not strata:
        raise ValueError("a balanced accuracy needs one class at least")
    parts = [
        interval_of_paired_proportions(n=one.n, lost=one.lost, gained=one.gained, confidence=confidence)
        for one in strata
    ]
    estimate = math.fsum(part.estimate for part in parts) / len(parts)
    exact = [_find_exact_end(one, confidence) for one in strata]
    below = math.hypot(*(max(part.estimate - part.low, end) for part, end in zip(parts, exact, strict=True)))
    above = math.hypot(*(max(part.high - part.estimate, end) for part, end in zip(parts, exact, strict=True)))
    return Interval(
        estimate=estimate,
        low=estimate - below / len(parts),
        high=estimate + above / len(parts),
        confidence=confidence,
    )


def _find_exact_end(one: Stratum, confidence: float) -> float:
    """Return the exact binomial end where nothing differs, which is larger than the score's for few rows; else 0."""
    return 0.0 if one.lost or one.gained else -math.expm1(math.log((1 - confidence) / 2) / one.n)


def smallest_provable_balanced_drop(sizes: Sequence[int], confidence: float) -> float:
    """The smallest drop of the balanced accuracy that classes of these numbers of rows can prove: nothing is lost.

    Raises:
        ValueError: There is no class, or one without rows.
    """
    return interval_of_balanced_accuracy([Stratum(n=size) for size in sizes], confidence=confidence).high


def needed_balanced_rows(shares: Sequence[float], limit: float, confidence: float) -> int:
    """The fewest rows, of which each class has its share, with a ``smallest_provable_balanced_drop`` under a limit.

    Args:
        shares: Of each class, above 0.
        limit: The limit, above 0.
        confidence: The confidence of the interval.

    Raises:
        ValueError: There is no class, or a share or the limit is not positive.
    """
    if not shares or min(shares) <= 0 or limit <= 0:
        raise ValueError("classes have shares above 0, and a limit is above 0")

    def prove(rows: int) -> bool:
        sizes = [max(1, math.floor(share * rows)) for share in shares]
        return smallest_provable_balanced_drop(sizes, confidence) < limit

    rarest = len(shares) * limit
    high = 1 if rarest >= 1 else needed_rows(rarest, confidence)
    while not prove(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if prove(middle) else (middle, high)
    return high
