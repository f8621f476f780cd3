"""From the values of measuring to the records of the evidence."""

from __future__ import annotations

import json
from typing import Literal, cast

from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.measurement import Finalist, Quality, Speedup, Standing, Status, Validation
from kedro_hone.core.values.outcome import Failed
from kedro_hone.report.records import CandidateRecord, FinalistRecord, QualityRecord, SpeedupRecord


def record_speedup(speedup: Speedup, *, baseline: str) -> SpeedupRecord:
    """Flatten a speed-up.

    Args:
        speedup: What was measured.
        baseline: What it was measured against, in words.

    Returns:
        The record.
    """
    return SpeedupRecord(
        estimate=speedup.ratio.estimate,
        low=speedup.ratio.low,
        high=speedup.ratio.high,
        confidence=speedup.ratio.confidence,
        noise_floor=speedup.noise_floor,
        baseline=baseline,
        shape=speedup.shape,
        launches=speedup.launches,
    )


def record_quality(candidate: str, quality: Quality, *, provable: float | None = None) -> QualityRecord:
    """Flatten a metric.

    Args:
        candidate: The candidate's id.
        quality: What was measured.
        provable: The smallest limit that so many rows could prove with nothing lost, where it is known.

    Returns:
        The record.
    """
    return QualityRecord(
        candidate=candidate,
        metric=quality.metric,
        split=cast("Literal['search', 'gate']", quality.split),  # pydantic checks it
        source=quality.source,
        winner=quality.candidate,
        drop=quality.drop.estimate,
        low=quality.drop.low,
        high=quality.drop.high,
        confidence=quality.drop.confidence,
        limit=quality.limit,
        provable=provable,
        n=quality.n,
        spread=quality.spread,
    )


def record_candidate(validation: Validation, standing: Standing | None) -> CandidateRecord:
    """Join what validating and racing found out about one candidate.

    Args:
        validation: What ``validate`` found out.
        standing: Where it stood in the race, or None when it was not in it.

    Returns:
        The record. A valid candidate without a standing was not tried.
    """
    status, reason = validation.status, validation.reason
    if standing is not None:
        status, reason = standing.status, standing.reason or reason
    elif status is Status.MEASURED:
        status, reason = Status.NOT_TRIED, reason or "It was valid, but the race had no place for it."
    outcome = validation.candidate.outcome
    metadata = outcome.metadata if isinstance(outcome, Artifact) else {}
    machine_options = cast("dict[str, dict[str, Json]]", metadata.get("machine_options", {}))
    failure = outcome.failure.value if isinstance(outcome, Failed) else validation.slug
    if standing is not None:
        failure = standing.slug or failure
    return CandidateRecord(
        id=validation.candidate.id,
        route=validation.candidate.route,
        status=status,
        reason="" if status is Status.MEASURED else reason,
        failure_class=(failure or None) if status is Status.FAILED else None,
        latency=standing.latency if standing else (),
        ratios=standing.ratios if standing else {},
        speedup=standing.objective if standing else None,
        quality=record_quality(validation.candidate.id, validation.quality) if validation.quality else None,
        size_bytes=validation.size_bytes,
        cold_start_ms=validation.cold_start_ms,
        peak_memory_bytes=validation.peak_memory_bytes,
        build_seconds=validation.build_seconds,
        cached=validation.cached,
        rounds=standing.rounds if standing else 0,
        publishable=validation.publishable,
        machine_options=machine_options,
        note=" ".join(part for part in (validation.note, _say_options(machine_options)) if part),
    )


def _say_options(machine_options: dict[str, dict[str, Json]]) -> str:
    """Say which options of the machine are on; what is off needs no remark."""
    pairs = [(adaptor, name, value) for adaptor, row in machine_options.items() for name, value in row.items()]
    said = [f"{adaptor}: {name}={json.dumps(value)}" for adaptor, name, value in pairs if value]
    return f"For the CPU, {'; '.join(said)}." if said else ""


def record_finalist(finalist: Finalist, *, baseline: str) -> FinalistRecord:
    """Flatten a finalist.

    Args:
        finalist: What the confirmation measured.
        baseline: What it was measured against, in words.

    Returns:
        The record.
    """
    return FinalistRecord(
        id=finalist.id,
        speedups=tuple(record_speedup(speedup, baseline=baseline) for speedup in finalist.speedups),
        latency=finalist.latency,
        launches=finalist.launches,
        reason=finalist.reason,
    )
