"""Accuracy against latency, as two static drawings that take their colours from the page.

Altair describes the chart and vl-convert draws it. The colours in the drawing are stand-ins that are replaced by the
page's CSS variables afterwards, so that one drawing serves the light and the dark theme.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

import altair as alt
import vl_convert

from kedro_hone.core.values.base import Json
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.points import Point, list_points
from kedro_hone.report.wording import is_fraction, name_metric, name_shape

INK, MUTED, LINE, PANEL, WINNER, FINALIST, REST, LIMIT = (f"#0102{number:02x}" for number in range(3, 11))
_VARIABLES: Final = {
    INK: "--ink",
    MUTED: "--muted",
    LINE: "--line",
    PANEL: "--panel",
    WINNER: "--winner",
    FINALIST: "--finalist",
    REST: "--rest",
    LIMIT: "--limit",
}
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_MARK: Final = re.compile(r'<(path|line|text)( aria-label="([^"]*)"[^>]*?)/>')


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The drawings and what stands around them.

    Attributes:
        wide: SVG for a broad page.
        narrow: SVG for a telephone.
        metric: The metric's name.
        shape: The deciding shape, as a person writes it.
        roles: The roles that occur, for the legend.
        limited: Whether the gate's limit is drawn.
        rows: How many rows of the search split the metric rests on.
    """

    wide: str
    narrow: str
    metric: str
    shape: str
    roles: tuple[str, ...]
    limited: bool
    rows: int


def draw_chart(evidence: Evidence) -> Chart | None:
    """Draw accuracy (search split) against latency (deciding shape) of every candidate that was timed.

    Args:
        evidence: The evidence.

    Returns:
        The drawings, or None when there is nothing to compare.
    """
    qualities = [candidate.quality for candidate in evidence.candidates if candidate.quality]
    if not qualities or evidence.latency is None:
        return None
    metric = qualities[0].metric
    points = list_points(evidence, shape=evidence.latency.source.shape, reference=qualities[0])
    limit = None if qualities[0].limit is None else qualities[0].source - qualities[0].limit
    shape = name_shape(evidence.latency.source.shape)
    drawings = [
        _render(_compose(points, metric=metric, limit=limit, shape=shape, wide=wide), kind=kind)
        for wide, kind in ((True, "wide"), (False, "narrow"))
    ]
    return Chart(
        wide=drawings[0],
        narrow=drawings[1],
        metric=name_metric(metric),
        shape=shape,
        roles=tuple(role for role in ("winner", "finalist", "source", "measured", "dropped")
                    if any(point.role == role for point in points)),
        limited=limit is not None,
        rows=qualities[0].n,
    )  # fmt: skip


def _compose(points: list[Point], *, metric: str, limit: float | None, shape: str, wide: bool) -> alt.LayerChart:
    span = _find_span(points, limit)
    x, y = _make_axes(points, metric=metric, span=span, shape=shape, wide=wide)
    layers = [] if limit is None else _layer_limit(limit, wide=wide, y=y)
    for role, colour, opacity in (
        ("dropped", REST, 0.25), ("measured", REST, 0.4), ("source", INK, 0.5), ("finalist", FINALIST, 0.6),
        ("winner", WINNER, 0.9),
    ):  # fmt: skip
        data = alt.Data(values=[vars(point) for point in points if point.role == role])
        rule = alt.Chart(data).mark_rule(color=colour, opacity=opacity, strokeWidth=1.5)
        layers.append(rule.encode(x="latency_low:Q", x2="latency_high:Q", y="quality:Q", description="text:N"))
        layers.append(rule.encode(y="quality_low:Q", y2="quality_high:Q", x="latency:Q", description="text:N"))
    for role in ("dropped", "measured", "source", "finalist", "winner"):
        data = alt.Data(values=[vars(point) for point in points if point.role == role])
        layers.append(alt.Chart(data).mark_point(**_MARKS[role]).encode(x=x, y=y, description="text:N"))
    for role in ("source", "winner"):
        layers += _layer_label([point for point in points if point.role == role], role=role, wide=wide, span=span)
    size = {"width": 980, "height": 400} if wide else {"width": 290, "height": 330}
    return alt.layer(*layers).properties(**size, background="transparent", padding=4).configure(
        font=_FONT,
        view={"stroke": None},
        axis={"labelColor": MUTED, "titleColor": MUTED, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE,
              "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelPadding": 6},
    )  # fmt: skip


_MARKS: Final[dict[str, dict[str, Json]]] = {
    "dropped": {"shape": "circle", "size": 55, "stroke": REST, "fill": PANEL, "strokeWidth": 1.5, "opacity": 1},
    "measured": {"shape": "circle", "size": 75, "stroke": PANEL, "fill": REST, "strokeWidth": 1, "opacity": 1},
    "source": {"shape": "diamond", "size": 150, "stroke": PANEL, "fill": INK, "strokeWidth": 1.5, "opacity": 1},
    "finalist": {"shape": "circle", "size": 110, "stroke": PANEL, "fill": FINALIST, "strokeWidth": 1.5, "opacity": 1},
    "winner": {"shape": "circle", "size": 240, "stroke": PANEL, "fill": WINNER, "strokeWidth": 2, "opacity": 1},
}


def _find_span(points: list[Point], limit: float | None) -> tuple[float, float]:
    """Return the ends of the metric's axis, with a free band at the top for the labels."""
    bottom = min([point.quality_low for point in points] + ([] if limit is None else [limit]))
    top = max(point.quality_high for point in points)
    room = (top - bottom) * 0.08 or abs(top) * 0.01 or 0.01
    return bottom - room, top + room * 2.2


def _make_axes(
    points: list[Point], *, metric: str, span: tuple[float, float], shape: str, wide: bool
) -> tuple[alt.X, alt.Y]:
    low, high = min(point.latency_low for point in points) / 1.12, max(point.latency_high for point in points) * 1.12
    share = is_fraction(metric)
    x = alt.X(
        "latency:Q",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(
            title=f"← faster · median latency at {shape}, ms" + (" (log scale)" if wide else ""),
            values=choose_ticks(low, high, most=9 if wide else 5), format="~g", grid=False, titlePadding=12,
        ),
    )  # fmt: skip
    y = alt.Y(
        "quality:Q",
        scale=alt.Scale(domain=list(span), nice=False, zero=False),
        axis=alt.Axis(
            title=f"{name_metric(metric)}, search split" + (" · higher is better" if wide else ""),
            titleAngle=0, titleAlign="left", titleX=-46, titleY=-14, titleBaseline="bottom",
            format=".1%" if share else "~g",
            values=choose_steps(span[0], max(point.quality_high for point in points)), domain=False, ticks=False,
        ),
    )  # fmt: skip
    return x, y


def choose_steps(low: float, high: float, *, about: int = 6) -> list[float]:
    """Return round numbers between two ends of a linear axis, about so many."""
    wanted = (high - low) / about
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= wanted * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


_DIGITS: Final = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
    tuple(tenth / 10 for tenth in range(10, 100)),
)
"""Leading digits of the ticks within one decade, sparse to dense."""


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


def _layer_limit(limit: float, *, wide: bool, y: alt.Y) -> list[alt.Chart]:
    data = alt.Data(values=[{"quality": limit, "text": "lowest that the gate allows" if wide else "gate"}])
    line = alt.Chart(data).mark_rule(color=LIMIT, strokeDash=[5, 4], strokeWidth=1.5, aria=False).encode(y=y)
    text = alt.Chart(data).mark_text(
        align="right", baseline="top", dy=6, color=LIMIT, fontSize=12, aria=False
    ).encode(y=y, text="text:N", x=alt.value("width"))  # fmt: skip
    return [line, text]


def _layer_label(points: list[Point], *, role: str, wide: bool, span: tuple[float, float]) -> list[alt.Chart]:
    """Name a point in the free band at the top, with a line that leads down to it."""
    bottom, top = span
    row = 0.045 if role == "winner" else 0.095
    values = [
        vars(point)
        | {"label": f"winner: {point.name}" if role == "winner" and wide else role, "top": top - row * (top - bottom)}
        for point in points
    ]
    base = alt.Chart(alt.Data(values=values))
    colour = WINNER if role == "winner" else INK
    place: dict[str, Json] = {"align": "right" if role == "source" else "left", "dx": 5 if role == "source" else -5}
    line = base.mark_rule(color=colour, strokeDash=[1, 3], strokeCap="round", aria=False)
    place |= {"fontSize": 13, "fontWeight": 600, "baseline": "bottom", "aria": False}
    rim = base.mark_text(**place, color=PANEL, stroke=PANEL, strokeWidth=6, strokeJoin="round")
    text = base.mark_text(**place, color=colour)
    return [
        line.encode(x="latency:Q", y="top:Q", y2="quality:Q"),
        *(layer.encode(x="latency:Q", y="top:Q", text="label:N") for layer in (rim, text)),
    ]


def _render(chart: alt.LayerChart, *, kind: str) -> str:
    """Draw the chart; name every mark in a tooltip, and hand its colours and its size over to the page."""
    svg: str = vl_convert.vegalite_to_svg(chart.to_json())
    svg = _MARK.sub(r"<\1\2><title>\3</title></\1>", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(f'"{colour}"', f'"var({variable})"')
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="chart {kind}" viewBox="0 0 {width} {height}" role="img" '
    label = "Accuracy against latency of every candidate that was timed; the table below has the same numbers."
    return re.sub(r"<svg [^>]*>", f'{head}aria-label="{label}">', svg, count=1)
