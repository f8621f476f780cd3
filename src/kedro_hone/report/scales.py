"""Intervals as bars on a common scale: positions in per cent, so that a template can place them."""

from __future__ import annotations

from dataclasses import dataclass

from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord, QualityRecord, SpeedupRecord
from kedro_hone.report.wording import format_count, format_drop, format_range, format_ratio, name_shape


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One interval on a common scale; positions in per cent of its width."""

    label: str
    value: str
    interval: str
    remark: str
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
    control = evidence.confirmation.control if evidence.confirmation else ()
    everything = (*evidence.speedups, *control)
    marks = [1.0] if gate is None else [1.0, gate]
    low, high = min(*marks, *(one.low for one in everything)), max(*marks, *(one.high for one in everything))
    room = (high - low) * 0.04 or 0.05
    low, high = low - room, high + room
    return Scale(
        bars=(
            *(_make_bar(one, name_shape(one.shape), low, high) for one in evidence.speedups),
            *(
                _make_bar(one, f"source against itself, {name_shape(one.shape)}", low, high, control=True)
                for one in control
            ),
        ),
        marks=tuple(
            (_position(value, low, high), format_ratio(value, 2) if kind == "gate" else format_ratio(1, 0), kind)
            for value, kind in zip(marks, ("one", "gate"), strict=False)
        ),
    )


def _make_bar(speedup: SpeedupRecord, label: str, low: float, high: float, *, control: bool = False) -> Bar:
    return Bar(
        label=label,
        value=format_ratio(speedup.estimate),
        interval=format_range(speedup.low, speedup.high, estimate=speedup.estimate),
        remark=f"{speedup.launches} paired launches",
        low=_position(speedup.low, low, high),
        high=_position(speedup.high, low, high),
        at=_position(speedup.estimate, low, high),
        control=control,
    )


def _position(value: float, low: float, high: float) -> float:
    return round(100 * (value - low) / (high - low), 2)


def scale_quality(record: QualityRecord) -> Scale:
    """Put one drop on a scale of its own, with no change and the limit as marks."""
    marks = [(0.0, "no change", "one")]
    if record.limit is not None:
        marks.append((record.limit, f"limit {format_drop(record.metric, record.limit, unit=False)}", "gate"))
    low, high = min(record.low, 0.0), max(record.high, *(value for value, _, _ in marks), 0.0)
    room = (high - low) * 0.12 or 0.01
    low, high = low - room, high + room
    interval = f"{format_drop(record.metric, record.low, unit=False)} to {format_drop(record.metric, record.high)}"
    bar = Bar(
        label="drop",
        value=format_drop(record.metric, record.drop),
        interval=interval,
        remark=f"{format_count(record.n)} rows",
        low=_position(record.low, low, high),
        high=_position(record.high, low, high),
        at=_position(record.drop, low, high),
    )
    return Scale(bars=(bar,), marks=tuple((_position(value, low, high), label, kind) for value, label, kind in marks))


def scale_ratio(candidate: CandidateRecord, *, most: float) -> tuple[float, float, float]:
    """Return where a candidate's race interval lies on a scale from 0 to the fastest, in per cent: low, high, at."""
    if candidate.speedup is None:
        return 0.0, 0.0, 0.0
    ends = (candidate.speedup.low, candidate.speedup.high, candidate.speedup.estimate)
    low, high, at = (min(100.0, _position(end, 0.0, most)) for end in ends)
    return low, high, at


def find_fastest(evidence: Evidence) -> float:
    """Return the highest end of any race interval, at least 1."""
    return max([1.0, *(candidate.speedup.high for candidate in evidence.candidates if candidate.speedup)])
