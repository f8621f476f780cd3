"""The points of the chart: which candidate stands where, in which role."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kedro_hone.core.values.measurement import Latency, Status
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord, QualityRecord
from kedro_hone.report.wording import (
    SOURCE_ID,
    STATUS_WORDS,
    format_metric,
    format_ms,
    is_fraction,
    name_metric,
    name_route,
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One candidate on the chart: its role, times in milliseconds, and the metric, with the ends of both intervals."""

    role: str
    name: str
    status: str
    latency: float
    latency_low: float
    latency_high: float
    quality: float
    quality_low: float
    quality_high: float
    text: str


def list_points(evidence: Evidence, *, shape: str, reference: QualityRecord) -> list[Point]:
    """Return the candidates that have both a time at the shape and the metric.

    Args:
        evidence: The evidence.
        shape: The deciding shape.
        reference: A record of the metric on the search split; its ``source`` is the source model's value.

    Returns:
        The points. A time's interval is the race's ratio interval carried over, relative to its own estimate.
    """
    finalists = {finalist.id for finalist in evidence.finalists}
    winner = evidence.winner.candidate if evidence.winner else None
    candidates = evidence.candidates
    if evidence.latency is not None and all(candidate.route for candidate in candidates):
        timed = (evidence.latency.source, *(both.source for both in evidence.latency.shapes))
        candidates += (CandidateRecord(id=SOURCE_ID, route=(), status=Status.MEASURED, latency=timed),)
    points = []
    for candidate in candidates:
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
    ratio, quality = candidate.speedup, candidate.quality
    value = quality.winner if quality else reference.source
    floor, ceiling = (0.0, 1.0) if is_fraction(reference.metric) else (-math.inf, math.inf)
    name, metric = name_route(candidate.route), reference.metric
    return Point(
        role=role,
        name="source" if role == "source" else name_route(candidate.route, last=2),
        status=STATUS_WORDS[candidate.status],
        latency=latency.p50_ms,
        latency_low=latency.p50_ms * (ratio.estimate / ratio.high if ratio and candidate.route else 1),
        latency_high=latency.p50_ms * (ratio.estimate / ratio.low if ratio and candidate.route else 1),
        quality=value,
        quality_low=max(floor, quality.source - quality.high) if quality else value,
        quality_high=min(ceiling, quality.source - quality.low) if quality else value,
        text=f"{name} ({role}): {format_ms(latency.p50_ms)}, {name_metric(metric)} {format_metric(metric, value)}",
    )
