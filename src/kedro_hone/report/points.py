"""The points of the chart: which candidate is where, in which role."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kedro_hone.core.values.measurement import Interval, Latency, Status
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord, QualityRecord
from kedro_hone.report.wording import format_metric, format_ms, is_fraction, name_metric, name_route


@dataclass(frozen=True, kw_only=True)
class Point:
    """One candidate on the chart.

    Attributes:
        role: ``winner``, ``finalist``, ``source``, ``measured`` or ``dropped``.
        name: The end of its route.
        text: What its tooltip says.
        latency: Its median time in milliseconds.
        quality: The metric on the search split.
    """

    role: str
    name: str
    text: str
    latency: Interval
    quality: Interval


def list_points(evidence: Evidence, *, shape: str, reference: QualityRecord) -> list[Point]:
    """Return the candidates that have both a time at the shape and the metric.

    Args:
        evidence: The evidence.
        shape: The deciding shape.
        reference: The metric on the search split; its ``source`` is the source model's value.

    Returns:
        The points. The interval of a time is that of the race's ratio, relative to its own estimate.
    """
    finalists = {finalist.id for finalist in evidence.finalists}
    winner = evidence.winner.candidate if evidence.winner else None
    points = []
    for candidate in evidence.candidates:
        latency = next((one for one in candidate.latency if one.shape == shape), None)
        quality = candidate.quality
        if latency is None or (candidate.route and (quality is None or quality.metric != reference.metric)):
            continue
        points.append(_place(candidate, latency, _choose_role(candidate, winner, finalists), reference=reference))
    return points


def _choose_role(candidate: CandidateRecord, winner: str | None, finalists: set[str]) -> str:
    if candidate.id == winner:
        return "winner"
    if not candidate.route:
        return "source"
    if candidate.id in finalists:
        return "finalist"
    return "measured" if candidate.status is Status.MEASURED else "dropped"


def _place(candidate: CandidateRecord, latency: Latency, role: str, *, reference: QualityRecord) -> Point:
    ratio, quality, metric = candidate.speedup if candidate.route else None, candidate.quality, reference.metric
    value = quality.winner if quality else reference.source
    floor, ceiling = (0.0, 1.0) if is_fraction(metric) else (-math.inf, math.inf)
    name = name_route(candidate.route)
    return Point(
        role=role,
        name=name_route(candidate.route, last=2),
        text=f"{name} ({role}): {format_ms(latency.p50_ms)}, {name_metric(metric)} {format_metric(metric, value)}",
        latency=Interval(
            estimate=latency.p50_ms,
            low=latency.p50_ms * (ratio.estimate / ratio.high if ratio else 1),
            high=latency.p50_ms * (ratio.estimate / ratio.low if ratio else 1),
        ),
        quality=Interval(
            estimate=value,
            low=max(floor, quality.source - quality.high) if quality else value,
            high=min(ceiling, quality.source - quality.low) if quality else value,
        ),
    )
