"""Intervals as bars on a common scale: positions in per cent, so that a template can place them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kedro_hone.core.values.measurement import Interval, Quality, is_bounded
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.wording import format_drop, format_range, format_ratio, name_shape


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One interval on a common scale; positions in per cent of its width.

    Attributes:
        label: What was measured.
        value: The estimate, as text.
        interval: The interval, as text.
        low: The position of its lower end.
        high: The position of its upper end.
        at: The position of the estimate.
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
    """Intervals on one scale, with named marks on it.

    Attributes:
        bars: The intervals.
        marks: Position in per cent, label, and kind (``one``, ``gate``) of each mark.
    """

    bars: tuple[Bar, ...]
    marks: tuple[tuple[float, str, str], ...]


def scale_speedups(evidence: Evidence, *, gate: float | None) -> Scale | None:
    """Put the confirmed speed-up of every shape, and the source against itself, on one scale.

    Args:
        evidence: The evidence.
        gate: The recipe's threshold, or None.

    Returns:
        The scale, or None when nothing was confirmed.
    """
    if not evidence.speedups:
        return None
    rows = [(name_shape(one.shape), one.ratio, False) for one in evidence.speedups]
    rows += [
        (f"source against itself, {name_shape(one.shape)}", one.ratio, True) for one in evidence.confirmation.control
    ]
    marks = [(1.0, format_ratio(1, 0), "one"), *([] if gate is None else [(gate, format_ratio(gate, 2), "gate")])]
    ends = _find_ends([ratio for _, ratio, _ in rows], marks, room=0.04)
    bars = [
        _make_bar(label, ratio, ends, texts=(format_ratio(ratio.estimate), format_range(ratio)), control=control)
        for label, ratio, control in rows
    ]
    return Scale(bars=tuple(bars), marks=_place_marks(marks, ends))


def scale_quality(quality: Quality) -> Scale:
    """Put one drop on a scale of its own, with no change and the limit as marks."""
    metric, drop = quality.metric, quality.drop
    marks = [(0.0, "no change", "one")]
    if quality.limit is not None:
        marks.append((quality.limit, f"limit {format_drop(metric, quality.limit, unit=False)}", "gate"))
    ends = _find_ends([drop], marks, room=0.12)
    interval = f"{format_drop(metric, drop.low, unit=False)} to {format_drop(metric, drop.high)}"
    bar = _make_bar("drop", drop, ends, texts=(format_drop(metric, drop.estimate), interval))
    return Scale(bars=(bar,), marks=_place_marks(marks, ends))


def scale_ratio(candidate: CandidateRecord, *, most: float) -> tuple[float, float, float]:
    """Return where a candidate's race interval is on a scale from 0 to the fastest, in per cent: low, high, at."""
    if candidate.speedup is None:
        return 0.0, 0.0, 0.0
    ends = (candidate.speedup.low, candidate.speedup.high, candidate.speedup.estimate)
    low, high, at = (_position(end, (0.0, most)) for end in ends)
    return low, high, at


def find_fastest(evidence: Evidence) -> float:
    """Return the highest end of any race interval, at least 1."""
    return max([1.0, *(candidate.speedup.high for candidate in evidence.candidates if candidate.speedup)])


_Ends = tuple[float, float]
_Marks = Sequence[tuple[float, str, str]]


def _find_ends(intervals: Sequence[Interval], marks: _Marks, *, room: float) -> _Ends:
    """Return the ends of a scale that holds all intervals and marks, with some room at both."""
    places = [place for place, _, _ in marks]
    places += [end for one in intervals for end in (one.low, one.estimate, one.high) if is_bounded(end)]
    low, high = min(places), max(places)
    room = (high - low) * room or 0.01
    return low - room, high + room


def _make_bar(label: str, interval: Interval, ends: _Ends, *, texts: tuple[str, str], control: bool = False) -> Bar:
    low, high, at = (_position(value, ends) for value in (interval.low, interval.high, interval.estimate))
    return Bar(label=label, value=texts[0], interval=texts[1], low=low, high=high, at=at, control=control)


def _place_marks(marks: _Marks, ends: _Ends) -> tuple[tuple[float, str, str], ...]:
    return tuple((_position(value, ends), label, kind) for value, label, kind in marks)


def _position(value: float, ends: _Ends) -> float:
    low, high = ends
    return round(100 * (min(max(value, low), high) - low) / (high - low), 2)
