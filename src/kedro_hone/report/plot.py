"""Quality against latency: where every mark of the chart is, in the units of its SVG; a template draws it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kedro_hone.core.values.measurement import Interval, Status, is_bounded
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.view import tag_candidate
from kedro_hone.report.wording import format_metric, format_ms, is_fraction, name_metric, name_route, name_shape

ROLES: Final = ("winner", "finalist", "source", "measured", "dropped")
"""As in the legend; drawn in the opposite order, so that the winner is on top."""

_LONGEST_LABEL: Final = 60
_TOP, _BOTTOM, _SPACE, _DIGIT = 34.0, 56.0, 14.0, 7.5
"""Room for the title of the vertical axis, for the horizontal axis, next to labels, and for one digit."""

_DIGITS: Final = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
    tuple(tenth / 10 for tenth in range(10, 100)),
)
"""Leading digits of the ticks within one decade, sparse to dense."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One candidate that was timed.

    Attributes:
        role: One of ``ROLES``.
        name: The end of its route.
        text: What its tooltip says.
        latency: Its median time in milliseconds; the interval is that of the race's ratio, relative to its estimate.
        quality: The metric on the search split.
    """

    role: str
    name: str
    text: str
    latency: Interval
    quality: Interval


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point in a drawing; positions in the units of the drawing, from its upper left corner.

    Attributes:
        x: The position of its latency and of the interval's ends, and ``y`` that of its quality.
        label: Empty where it has none.
        label_y: The label's height.
        anchor: ``start`` or ``end``: the side of the label that is at the point.
    """

    point: Point
    x: Interval
    y: Interval
    label: str
    label_y: float
    anchor: str


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One drawing of the chart.

    Attributes:
        kind: ``wide``, or ``narrow`` for a phone.
        width: Of the whole drawing, as ``height``.
        left: Where the plotted area begins; it ends at ``right``, and the horizontal axis is at ``bottom``.
        columns: Place and label of each tick of the horizontal axis, and ``rows`` of the vertical one.
        limit: The height of the gate's limit, or None.
        marks: The points, the most interesting last.
    """

    kind: str
    width: float
    height: float
    left: float
    right: float
    bottom: float
    columns: tuple[tuple[float, str], ...]
    rows: tuple[tuple[float, str], ...]
    limit: float | None
    marks: tuple[Mark, ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The wide drawing and the narrow one, with what their caption says.

    Attributes:
        metric: The metric's name, for people, as the deciding ``shape``'s.
        roles: The roles that occur, for the legend.
        limited: Whether the gate's limit is drawn.
        rows: The number of rows of the search split.
    """

    drawings: tuple[Drawing, ...]
    metric: str
    shape: str
    roles: tuple[str, ...]
    limited: bool
    rows: int


def draw_chart(evidence: Evidence) -> Chart | None:
    """Place quality (search split) against latency (deciding shape) of every candidate that was timed.

    Returns:
        The chart, or None when there is nothing to compare.
    """
    reference = next((one.quality for one in evidence.candidates if one.route and one.quality), None)
    if reference is None or evidence.latency is None:
        return None
    shape, metric = evidence.latency.source.shape, reference.metric
    placed = (_place(evidence, candidate, shape, metric) for candidate in evidence.candidates)
    points = [point for point in placed if point is not None]
    if not points:
        return None
    limit = None if reference.limit is None else reference.source - reference.limit
    return Chart(
        drawings=tuple(_draw(points, kind=kind, limit=limit, share=is_fraction(metric)) for kind in ("wide", "narrow")),
        metric=name_metric(metric),
        shape=name_shape(shape),
        roles=tuple(role for role in ROLES if any(point.role == role for point in points)),
        limited=limit is not None,
        rows=reference.n,
    )


def _place(evidence: Evidence, candidate: CandidateRecord, shape: str, metric: str) -> Point | None:
    """Return the point of a candidate, if it has both a time at the shape and the metric."""
    latency = next((one.p50_ms for one in candidate.latency if one.shape == shape), None)
    quality, ratio = candidate.quality, candidate.speedup
    if latency is None or quality is None or quality.metric != metric:
        return None
    role = tag_candidate(evidence, candidate) or ("measured" if candidate.status is Status.MEASURED else "dropped")
    floor, ceiling = (0.0, 1.0) if is_fraction(metric) else (-math.inf, math.inf)
    low, high = (ratio.estimate / ratio.high, ratio.estimate / ratio.low) if candidate.route and ratio else (1, 1)
    value, drop = quality.candidate, quality.drop
    said = f"{format_ms(latency)}, {name_metric(metric)} {format_metric(metric, value)}"
    return Point(
        role=role,
        name=name_route(candidate.route, last=2),
        text=f"{name_route(candidate.route)} ({role}): {said}",
        latency=Interval(estimate=latency, low=latency * low, high=latency * high),
        quality=Interval(
            estimate=value, low=max(floor, quality.source - drop.high), high=min(ceiling, quality.source - drop.low)
        ),
    )


def _draw(points: list[Point], *, kind: str, limit: float | None, share: bool) -> Drawing:
    width, height, most = (1040.0, 490.0, 9) if kind == "wide" else (350.0, 420.0, 5)
    first, last = min(p.latency.low for p in points) / 1.12, max(p.latency.high for p in points) * 1.12
    low, top, high = _find_span(points, limit)
    steps = choose_steps(low, top)
    labels = _label_steps(steps, share=share)
    left = max((len(label) for label in labels), default=0) * _DIGIT + _SPACE
    right, bottom = width - _SPACE, height - _BOTTOM

    def x(milliseconds: float) -> float:
        return round(left + (right - left) * math.log(milliseconds / first) / math.log(last / first), 1)

    def y(quality: float) -> float:
        return round(bottom - (bottom - _TOP) * (min(max(quality, low), top) - low) / (high - low), 1)

    marks = (
        Mark(
            point=point,
            x=_map(x, point.latency),
            y=_map(y, point.quality),
            label=_label_point(point, kind),
            label_y=round(_TOP + (bottom - _TOP) * (0.045 if point.role == "winner" else 0.095), 1),
            anchor="start" if x(point.latency.estimate) < (left + right) / 2 else "end",
        )
        for point in sorted(points, key=lambda point: -ROLES.index(point.role))
    )
    return Drawing(
        kind=kind,
        width=width,
        height=height,
        left=left,
        right=right,
        bottom=bottom,
        columns=tuple((x(tick), f"{tick:g}") for tick in choose_ticks(first, last, most=most)),
        rows=tuple((y(step), label) for step, label in zip(steps, labels, strict=True)),
        limit=None if limit is None else y(limit),
        marks=tuple(marks),
    )


def _map(place: Callable[[float], float], interval: Interval) -> Interval:
    """Return where an interval is on an axis."""
    return Interval(estimate=place(interval.estimate), low=place(interval.low), high=place(interval.high))


def _find_span(points: list[Point], limit: float | None) -> tuple[float, float, float]:
    """Return the lower end of the metric's axis, the upper end of what is drawn, and that of the band for labels."""
    ends = [end for one in points for end in (one.quality.low, one.quality.estimate, one.quality.high)]
    ends = [end for end in ends if is_bounded(end)] + ([] if limit is None else [limit])
    bottom, top = min(ends), max(ends)
    room = (top - bottom) * 0.08 or abs(top) * 0.01 or 0.01
    return bottom - room, top, top + room * 2.2


def _label_steps(steps: list[float], *, share: bool) -> list[str]:
    """Write the ticks of the metric's axis; shares in per cent, with the decimals that tell them apart."""
    if not share:
        return [f"{step:g}" for step in steps]
    decimals = 1 if len(steps) < 2 else max(1, math.ceil(-math.log10(100 * (steps[1] - steps[0])) - 1e-9))
    return [f"{step:.{decimals}%}" for step in steps]


def _label_point(point: Point, kind: str) -> str:
    """Name the winner and the source; the other points have tooltips only."""
    if point.role not in {"winner", "source"}:
        return ""
    label = f"winner: {point.name}" if point.role == "winner" and kind == "wide" else point.role
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def choose_steps(low: float, high: float) -> list[float]:
    """Return round numbers between two ends of a linear axis, about six."""
    wanted = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= wanted * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def choose_ticks(low: float, high: float, *, most: int) -> list[float]:
    """Return round numbers between two ends of a logarithmic axis: as many as fit, or every so many decades."""
    chosen: list[float] = []
    for digits in _DIGITS:
        ticks = [float(f"{digit}e{power}") for power in range(-9, 13) for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) > most:
            return chosen or ticks[:: -(-len(ticks) // most)]
        chosen = ticks
    return chosen
