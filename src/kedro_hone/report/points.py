"""The points of the chart: which candidate is where, in which role."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kedro_hone.core.values.measurement import Interval, Quality, Status
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.view import tag_candidate
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


def list_points(evidence: Evidence, *, shape: str, metric: str) -> list[Point]:
    """Return the candidates that have both a time at the shape and the metric.

    Args:
        evidence: The evidence.
        shape: The deciding shape.
        metric: The metric on the search split.

    Returns:
        The points. The interval of a time is that of the race's ratio, relative to its own estimate.
    """
    points = []
    for candidate in evidence.candidates:
        latency = next((one for one in candidate.latency if one.shape == shape), None)
        if latency is not None and candidate.quality is not None and candidate.quality.metric == metric:
            role = tag_candidate(evidence, candidate)
            role = role or ("measured" if candidate.status is Status.MEASURED else "dropped")
            points.append(_place(candidate, latency.p50_ms, candidate.quality, role))
    return points


def _place(candidate: CandidateRecord, latency: float, quality: Quality, role: str) -> Point:
    ratio, metric, value = candidate.speedup, quality.metric, quality.candidate
    floor, ceiling = (0.0, 1.0) if is_fraction(metric) else (-math.inf, math.inf)
    name, time = name_route(candidate.route), format_ms(latency)
    compared = ratio if candidate.route and ratio else Interval(estimate=1, low=1, high=1)
    return Point(
        role=role,
        name=name_route(candidate.route, last=2),
        text=f"{name} ({role}): {time}, {name_metric(metric)} {format_metric(metric, value)}",
        latency=Interval(
            estimate=latency,
            low=latency * compared.estimate / compared.high,
            high=latency * compared.estimate / compared.low,
        ),
        quality=Interval(
            estimate=value,
            low=max(floor, quality.source - quality.drop.high),
            high=min(ceiling, quality.source - quality.drop.low),
        ),
    )
