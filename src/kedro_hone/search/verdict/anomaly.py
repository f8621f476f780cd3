"""Anomalies: a candidate that was trained, and is better than its source by more than training explains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hone_runtime.values.measurement import Quality

ANOMALOUS: Final = "ANOMALOUS"
"""The word that begins the reason."""
GAIN: Final = 0.05
"""The largest gain that is no anomaly, as a share of the metric's scale."""
ERRORS: Final = 0.25
"""The largest share of the source's errors that a training may remove. Students as large as their teacher remove about
a tenth (T. Furlanello et al., "Born-Again Neural Networks", ICML 2018)."""


def find_anomaly(quality: Quality, *, trained: bool) -> str:
    """Return the reason why a candidate's quality is anomalous, or an empty text.

    A smaller network that learned from its source is at best slightly better. If it is much better, rows of the gate
    or search split were probably among its training rows, or the source was not trained to the end. Neither is decided
    by more measurements, so a person decides.

    Two conditions must hold. The estimated gain exceeds ``find_largest_gain``; and the whole interval of the drop is
    under 0, so that the gain is not chance. The interval's end closest to 0 is not compared with the largest gain: on
    few rows, this would miss leaks of many points. Without a true gain, an alarm is as rare as the level of one end.

    Args:
        quality: The candidate's quality on the gate split.
        trained: Whether a step of its route trained it; only such a candidate can be anomalous.
    """
    gain, most = -quality.drop.estimate, find_largest_gain(quality)
    if not trained or quality.drop.high >= 0 or gain <= most:
        return ""
    change = f"{quality.metric} goes from {quality.source:.4f} to {quality.candidate:.4f}"
    return (
        f"{ANOMALOUS}: it was trained, and {change} on {quality.n} rows, better by more than {most:.3g}; either these "
        "rows, or similar ones, were among its training rows, or the source was not trained to the end"
    )


def find_largest_gain(quality: Quality) -> float:
    """Return the largest gain that training explains, in the metric's unit.

    - A metric of which less is better is an error, with 0 as its best value: a quarter of the source's.
    - One whose best value is 1, such as a share, an F1, r2 or a correlation: 0.05, or a quarter of what is missing to 1
      if that is less. It is no share of the value itself: near 0, any gain would be an anomaly.
    - Any other: a twentieth of the source's value.

    The best value is taken for 1 if neither value is further from 0.
    """
    if not quality.higher_is_better:
        return ERRORS * abs(quality.source)
    if max(abs(quality.source), abs(quality.candidate)) <= 1:
        return min(GAIN, ERRORS * (1 - quality.source))
    return GAIN * abs(quality.source)


def list_reasons(anomalies: Mapping[str, str], withheld: Mapping[str, str]) -> list[str]:
    """Return a sentence for each anomaly, by the candidate's id, with what a person may do, or did.

    Args:
        anomalies: All anomalies.
        withheld: Those that no person allowed.
    """
    remedy = "it is not published: check both, then allow it by `hone.publish.allow: [anomalous]`"
    return [
        f"{name} is {reason}; {remedy if name in withheld else 'it is allowed by publish.allow'}"
        for name, reason in anomalies.items()
    ]
