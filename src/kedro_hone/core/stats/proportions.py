"""Paired proportions: the rows that only the source gets right, and those that only the candidate does."""

from __future__ import annotations

import math

from kedro_hone.core.stats.levels import find_z
from kedro_hone.core.values.measurement import Interval


def interval_of_paired_proportions(*, n: int, lost: float, gained: float, confidence: float) -> Interval:
    """How much lower the candidate's share of right predictions is than the source's, ``(lost - gained) / n``.

    Tango's score interval (Tango 1998, *Statistics in Medicine* 17:891-908): all drops that the score test, with the
    other cell at its maximum likelihood under that drop, does not reject. It stays honest where nothing was lost and
    nothing gained: the interval is then ``[-z²/(n+z²), z²/(n+z²)]``, where Wald's and a bootstrap's are [0, 0]. The
    upper end alone errs with half of what the confidence leaves.

    Args:
        n: The number of rows, the same for both.
        lost: Rows that only the source gets right; a fraction of a row where it is graded. Losing them is positive.
        gained: Rows that only the candidate gets right.
        confidence: The two-sided level.

    Raises:
        ValueError: No rows, or counts that do not fit into them.
    """
    if n < 1 or lost < 0 or gained < 0 or lost + gained > n:
        raise ValueError(f"{lost} lost and {gained} gained are no counts among {n} rows")
    z = find_z(confidence)
    return Interval(
        estimate=(lost - gained) / n,
        low=-_find_upper_end(n, gained, lost, z),
        high=_find_upper_end(n, lost, gained, z),
        confidence=confidence,
    )


def _find_upper_end(n: int, lost: float, gained: float, z: float) -> float:
    """The drop above the estimate at which the score test turns from accepting to rejecting."""
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
    """What n rows can prove at best: the upper end of the drop when no row is lost and none gained.

    It is ``z²/(n+z²)``: 3.84/n for many rows at 95 %, a little above the exact 3.69/n. The confidence is the one that
    the gate will use, after sharing it among the finalists. A limit (a share of the rows) that is not above it could
    not be passed by the source itself: the run is to say so before it starts.

    Raises:
        ValueError: No rows.
    """
    return interval_of_paired_proportions(n=n, lost=0, gained=0, confidence=confidence).high


def needed_rows(limit: float, confidence: float) -> int:
    """The fewest rows whose ``smallest_provable_drop`` is under a limit.

    A gate of that size forgives no lost row; a few times as many are sensible.

    Raises:
        ValueError: A limit of 0 or below, which no number of rows can prove.
    """
    if not limit > 0:
        raise ValueError(f"no number of rows proves a drop under {limit!r}")
    n = max(1, math.floor(find_z(confidence) ** 2 * (1 - limit) / limit))
    return n if smallest_provable_drop(n, confidence) < limit else n + 1
