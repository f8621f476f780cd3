"""Intervals as bars on a common scale: positions in per cent, so that a template can place them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kedro_hone.core.values.measurement import Interval, Quality, is_bounded
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.wording import format_drop, format_lead, format_ratio, format_rest, name_shape

_Ends = tuple[float, float]
Marks = Sequence[tuple[float, str, str]]
"""Place, label, and kind (``one``, ``gate``) of each mark."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One interval on a common scale: estimate (``at``) and ends in per cent of its width, and as text.

    Attributes:
        control: Whether it is the source, measured against itself.
    """

    label: str
    value: str
    interval: str
    low: float
    high: float
    at: float
    control: bool = False


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Intervals on one scale, with named marks on it."""

    bars: tuple[Bar, ...]
    marks: Marks


def scale_speedups(evidence: Evidence, *, gate: float | None) -> Scale | None:
    """Put the confirmed speed-up of every shape, and the source against itself, on one scale with the recipe's gate."""
    if not evidence.speedups:
        return None
    itself, control = "source against itself, ", evidence.confirmation.control
    rows = [("", one, False) for one in evidence.speedups] + [(itself, one, True) for one in control]
    marks = [(1.0, format_ratio(1, 0), "one"), *([] if gate is None else [(gate, format_ratio(gate, 2), "gate")])]
    ends = _find_ends([one.ratio for _, one, _ in rows], marks, room=0.04)
    bars = (
        Bar(
            label=f"{of}{name_shape(one.shape)}",
            value=format_lead(one.ratio),
            interval=format_rest(one.ratio),
            control=control,
            **_place(one.ratio, ends),
        )
        for of, one, control in rows
    )
    return Scale(bars=tuple(bars), marks=_place_marks(marks, ends))


def scale_quality(quality: Quality) -> Scale:
    """Put one drop on a scale of its own, with no change and the limit as marks."""
    metric, drop = quality.metric, quality.drop
    marks = [(0.0, "no change", "one")]
    if quality.limit is not None:
        marks.append((quality.limit, f"limit {format_drop(metric, quality.limit, unit=False)}", "gate"))
    ends = _find_ends([drop], marks, room=0.12)
    interval = f"{format_drop(metric, drop.low, unit=False)} to {format_drop(metric, drop.high)}"
    bar = Bar(label="drop", value=format_drop(metric, drop.estimate), interval=interval, **_place(drop, ends))
    return Scale(bars=(bar,), marks=_place_marks(marks, ends))


def scale_ratios(evidence: Evidence) -> dict[str, dict[str, float]]:
    """Return where the race intervals are on a scale from 0 to the fastest, in per cent: low, high, at, by the id."""
    ratios = {one.id: one.speedup for one in evidence.candidates if one.speedup}
    most = max([1.0, *(ratio.high for ratio in ratios.values())])
    return {identifier: _place(ratio, (0.0, most)) for identifier, ratio in ratios.items()}


def _find_ends(intervals: Sequence[Interval], marks: Marks, *, room: float) -> _Ends:
    """Return the ends of a scale that holds all intervals and marks, with some room at both."""
    places = [place for place, _, _ in marks]
    places += [end for one in intervals for end in (one.low, one.estimate, one.high) if is_bounded(end)]
    low, high = min(places), max(places)
    room = (high - low) * room or 0.01
    return low - room, high + room


def _place(interval: Interval, ends: _Ends) -> dict[str, Any]:
    rows = (("low", interval.low), ("high", interval.high), ("at", interval.estimate))
    return {name: _position(value, ends) for name, value in rows}


def _place_marks(marks: Marks, ends: _Ends) -> Marks:
    return tuple((_position(value, ends), label, kind) for value, label, kind in marks)


def _position(value: float, ends: _Ends) -> float:
    low, high = ends
    return round(100 * (min(max(value, low), high) - low) / (high - low), 2)
