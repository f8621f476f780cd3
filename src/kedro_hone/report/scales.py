"""Intervals as bars on a common scale: positions in per cent, so that a template can place them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hone_runtime.values.measurement import Interval, Quality, is_bounded, is_telling
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.wording import format_drop, format_pair, format_ratio, format_shape

Ends = tuple[float, float]
Marks = Sequence[tuple[float, str, str]]  # position, label, and kind (``one``, ``gate``) of each


class Bar(NamedTuple):
    """One interval on a common scale, as text and as a position; ``control`` is the source, measured against itself."""

    label: str
    value: str
    interval: str
    place: Interval
    control: bool = False


class Scale(NamedTuple):
    """Intervals on one scale, with named marks on it."""

    bars: tuple[Bar, ...]
    marks: Marks


def scale_speedups(evidence: Evidence, *, gate: float | None) -> Scale | None:
    """Put the confirmed speed-up of every shape, and the source against itself, on one scale with the recipe's gate."""
    if not evidence.speedups:
        return None
    rows = [("", one) for one in evidence.speedups]
    rows += [("source against itself, ", one) for one in evidence.confirmation.control]
    bars = [
        Bar(f"{of}{format_shape(s.shape)}", *format_pair(s.ratio), _keep_telling(s.ratio), control=bool(of))
        for of, s in rows
    ]
    limit = [] if gate is None else [(gate, f"gate {format_ratio(gate, 2)}", "gate")]
    return _place_all(bars, [(1.0, format_ratio(1, 0), "one"), *limit], room=0.04)


def scale_quality(quality: Quality) -> Scale:
    """Put one drop on its own scale, with zero change and the limit as marks."""
    metric, drop = quality.metric, quality.drop
    marks = [(0.0, "no change", "one")]
    if quality.limit is not None:
        marks.append((quality.limit, f"limit {format_drop(metric, quality.limit, unit=False)}", "gate"))
    interval = f"{format_drop(metric, drop.low, unit=False)} to {format_drop(metric, drop.high)}"
    return _place_all([Bar("drop", format_drop(metric, drop.estimate), interval, drop)], marks, room=0.12)


def scale_ratios(evidence: Evidence, confirmed: Mapping[str, Interval]) -> dict[str, Interval]:
    """Return the positions of the speed-ups on a scale from 0 to the fastest, in per cent, by candidate id.

    A confirmed speed-up replaces the race's estimate of the same candidate.
    """
    found = ((one.id, confirmed.get(one.id, one.speedup)) for one in evidence.candidates)
    ratios = {name: ratio for name, ratio in found if ratio}
    drawn = {name: _keep_telling(ratio) for name, ratio in ratios.items()}
    most = max([1.0, *(ratio.high for ratio in drawn.values())])
    return {name: place_interval(ratio, (0.0, most)) for name, ratio in drawn.items()}


def _keep_telling(ratio: Interval) -> Interval:
    """Return a ratio to draw: without its interval if that would leave no room for the others."""
    return ratio if is_telling(ratio) else Interval(estimate=ratio.estimate, low=ratio.estimate, high=ratio.estimate)


def place_interval(interval: Interval, ends: Ends) -> Interval:
    """Return the position of an interval on a scale, in per cent."""
    low, high, at = (find_place(value, ends) for value in (interval.low, interval.high, interval.estimate))
    return Interval(estimate=at, low=low, high=high)


def find_place(value: float, ends: Ends) -> float:
    """Return the position of a value on a scale in per cent; either end may be the higher."""
    first, last = ends
    return round(100 * (min(max(value, min(ends)), max(ends)) - first) / (last - first), 2)


def _place_all(bars: list[Bar], marks: Marks, *, room: float) -> Scale:
    """Put bars and marks, given in their own unit, on a scale that contains them, with some room at both ends."""
    values = [value for bar in bars for value in (bar.place.low, bar.place.estimate, bar.place.high)]
    known = [*filter(is_bounded, values), *(value for value, _, _ in marks)]
    low, high = min(known), max(known)
    room = (high - low) * room or 0.01
    ends = low - room, high + room
    return Scale(
        bars=tuple(bar._replace(place=place_interval(bar.place, ends)) for bar in bars),
        marks=[(find_place(value, ends), label, kind) for value, label, kind in marks],
    )
