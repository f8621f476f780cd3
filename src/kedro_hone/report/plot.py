"""Quality against latency: the positions of all marks of the chart, in per cent from its upper left, for a template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from hone_runtime.values.measurement import Interval, Status, is_bounded, is_telling
from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.scales import find_place, place_interval

ROLES: Final = ("winner", "finalist", "source", "measured", "dropped")
"""As in the legend; drawn in the opposite order, so that the winner is on top."""

_MOST_TICKS: Final = 7  # of the horizontal axis: its labels must fit on a phone


_Box = tuple[float, float, float, float]
_LABELLED: Final = ("winner", "source")
_MOST_LETTERS: Final = 60
_LETTER, _GAP, _HALF, _BAND = 0.6, 1.2, 2.2, 12.0
"""In per cent of a wide drawing: the width of a letter, the gap from the mark, half the height of a label, and the band
of the other labels. A narrow drawing shows no labels of points."""


class Point(NamedTuple):
    """One timed candidate: its role, the end of its route, its tooltip, and its position with its intervals.

    ``x`` is its median time, at the deciding shape with the interval of the race's ratio; ``y`` is the metric on the
    search split. ``number`` is its place by speed in the list under the drawing, and 0 for winner and source.
    ``label`` is its name where there is room for it to the ``right`` of the mark, or otherwise to the left; it is empty
    without room.
    """

    role: str
    name: str
    text: str
    x: Interval
    y: Interval
    number: int = 0
    label: str = ""
    right: bool = True


class Chart(NamedTuple):
    """The points, the most interesting last, with the positions and labels of the ticks, and the gate's limit.

    Names are for display; ``rows`` is the number of rows of the search split.
    """

    metric: str
    shape: str
    rows: int
    roles: tuple[str, ...]
    points: tuple[Point, ...]
    columns: tuple[tuple[float, str], ...]
    lines: tuple[tuple[float, str], ...]
    limit: float | None


def draw_charts(evidence: Evidence) -> tuple[Chart, ...]:
    """Plot quality against latency at each shape, the deciding one first; empty if nothing was timed."""
    if evidence.latency is None:
        return ()
    shapes = [evidence.latency.source.shape, *(both.source.shape for both in evidence.latencies)]
    return tuple(chart for shape in dict.fromkeys(shapes) if (chart := draw_chart(evidence, shape)))


def draw_chart(evidence: Evidence, shape: str = "") -> Chart | None:
    """Plot the search split's quality against latency (log scale) at a shape, by default the deciding one."""
    reference = next((one.quality for one in evidence.candidates if one.route and one.quality), None)
    if reference is None or evidence.latency is None:
        return None
    shape, metric = shape or evidence.latency.source.shape, reference.metric
    measured = (_measure(evidence, candidate, shape, metric) for candidate in evidence.candidates)
    points = sorted(filter(None, measured), key=lambda point: -ROLES.index(point.role))
    if not points:
        return None
    limit = None if reference.limit is None else reference.source - reference.limit
    width = min(p.x.low for p in points) - math.log(1.12), max(p.x.high for p in points) + math.log(1.12)
    low, top, high = _find_span(points, limit)
    height, steps = (high, low), choose_steps(low, top)
    # Shares are written in per cent, with enough decimals to distinguish the ticks.
    decimals = max(1, math.ceil(-math.log10(100 * (steps[1] - steps[0])) - 1e-9)) if len(steps) > 1 else 1
    written = f".{decimals}%" if wording.is_fraction(metric) else "g"
    placed = tuple(p._replace(x=place_interval(p.x, width), y=place_interval(p.y, height)) for p in points)
    return Chart(
        metric=wording.format_metric_name(metric),
        shape=wording.format_shape(shape),
        roles=tuple(role for role in ROLES if any(point.role == role for point in points)),
        rows=reference.n,
        points=label_points(placed),
        columns=tuple((find_place(math.log(tick), width), f"{tick:g}") for tick in choose_ticks(*map(math.exp, width))),
        lines=tuple((find_place(step, height), f"{step:{written}}") for step in steps),
        limit=None if limit is None else find_place(limit, height),
    )


def _measure(evidence: Evidence, candidate: CandidateRecord, shape: str, metric: str) -> Point | None:
    """Return a candidate's point by the logarithm of its milliseconds and its metric, if it has both."""
    latency = next((one.p50_ms for one in candidate.latency if one.shape == shape), None)
    quality, ratio = candidate.quality, candidate.speedup
    if latency is None or quality is None or quality.metric != metric:
        return None
    role = evidence.find_role(candidate) or ("measured" if candidate.status is Status.MEASURED else "dropped")
    floor, ceiling = (0.0, 1.0) if wording.is_fraction(metric) else (-math.inf, math.inf)
    worst, best = max(floor, quality.source - quality.drop.high), min(ceiling, quality.source - quality.drop.low)
    known = candidate.route and ratio and evidence.latency and shape == evidence.latency.source.shape
    drawn = ratio and known and is_telling(ratio)
    low, high = (ratio.estimate / ratio.high, ratio.estimate / ratio.low) if ratio and drawn else (1, 1)
    value = wording.format_metric(metric, quality.candidate)
    values = f"{wording.format_ms(latency)}, {wording.format_metric_name(metric)} {value}"
    return Point(
        role=role,
        name=wording.format_name(candidate, last=2),
        text=f"{wording.format_name(candidate)} ({role}): {values}",
        x=Interval(estimate=math.log(latency), low=math.log(latency * low), high=math.log(latency * high)),
        y=Interval(estimate=quality.candidate, low=worst, high=best),
    )


def label_points(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Return the points with numbers, and with names wherever these cover no mark, number and other name.

    Finalists are named first. Winner and source have labels of their own above the drawing.
    """
    order = sorted(
        (at for at, one in enumerate(points) if one.role not in _LABELLED), key=lambda at: points[at].x.estimate
    )
    numbers = {at: number for number, at in enumerate(order, start=1)}
    taken = [_find_mark(point) for point in points]
    names: dict[int, tuple[str, bool]] = {}
    for at in sorted(order, key=lambda at: ROLES.index(points[at].role)):
        text = points[at].name.removeprefix("… → ")
        text = text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
        others = taken[:at] + taken[at + 1 :]
        for right in (True, False):
            box = _find_box(points[at], text, right=right)
            if box[0] >= 0 and box[2] <= 100 and box[1] >= _BAND and not _covers(box, others):
                names[at] = text, right
                taken.append(box)
                break
    return tuple(
        point._replace(
            number=numbers.get(at, 0), label=names.get(at, ("", True))[0], right=names.get(at, ("", True))[1]
        )
        for at, point in enumerate(points)
    )


def _find_mark(point: Point) -> _Box:
    """Return the left, upper, right and lower end of a mark with its number above it, in per cent of a wide drawing."""
    return point.x.estimate - 0.8, point.y.estimate - 5, point.x.estimate + 0.8, point.y.estimate + 1.2


def _find_box(point: Point, text: str, *, right: bool) -> _Box:
    """Return the left, upper, right and lower end of a name next to its mark, in per cent of a wide drawing."""
    x, y, width = point.x.estimate, point.y.estimate, len(text) * _LETTER
    start = x + _GAP if right else x - _GAP - width
    return start, y - _HALF, start + width, y + _HALF


def _covers(box: _Box, others: Sequence[_Box]) -> bool:
    return any(box[0] < right and left < box[2] and box[1] < low and high < box[3] for left, high, right, low in others)


def _find_span(points: list[Point], limit: float | None) -> tuple[float, float, float]:
    """Return the lower end of the metric's axis, the upper end of the drawing, and that of the band for labels."""
    ends = [end for one in points for end in (one.y.low, one.y.estimate, one.y.high)]
    ends = [end for end in ends if is_bounded(end)] + ([] if limit is None else [limit])
    bottom, top = min(ends), max(ends)
    room = (top - bottom) * 0.08 or abs(top) * 0.01 or 0.01
    return bottom - room, top, top + room * 2.2


def choose_steps(low: float, high: float) -> list[float]:
    """Return round numbers between two ends of a linear axis, about six."""
    wanted = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= wanted * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def choose_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two ends of a logarithmic axis, at most ``_MOST_TICKS``."""
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{digit}e{power}") for power in range(-9, 13) for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= _MOST_TICKS:
            return ticks if len(ticks) > 3 else choose_steps(low, high)
    return ticks[:: -(-len(ticks) // _MOST_TICKS)]
