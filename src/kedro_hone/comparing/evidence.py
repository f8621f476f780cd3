"""Gather what proves a verdict: every value of a run, as the records of its evidence."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import kedro_hone
from kedro_hone.comparing.costs import sum_costs
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.proof import SAMPLES
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.machine.hardware import describe_hardware
from kedro_hone.core.stats import smallest_provable_drop
from kedro_hone.core.store.sealing import measure_files
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.measurement import (
    Confirmation,
    Decision,
    Finalist,
    Interval,
    Quality,
    RaceResult,
    Speedup,
    Status,
    Validation,
)
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.values.samples import SEARCH, Reference
from kedro_hone.report import conversion, provenance, records
from kedro_hone.report.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that a run found out.

    Attributes:
        setting: The recipe, the source, the data and the place.
        version: The source's version in its registry.
        reference: The source's score on the search split.
        validations: Of every candidate.
        race: The race.
        confirmation: The finalists.
        decision: The verdict.
        winner: Where the winner lies, or None when there is none.
        events: What the nodes did to find it, oldest first; each names its ``run``.
    """

    setting: Setting
    version: VersionInfo
    reference: Reference
    validations: tuple[Validation, ...]
    race: RaceResult
    confirmation: Confirmation
    decision: Decision
    winner: Path | None
    events: tuple[dict[str, Json], ...]

    @cached_property
    def best(self) -> Finalist | None:
        """The winner, or the best finalist where there is no winner, or None."""
        named = [f for f in self.confirmation.finalists if f.id == self.decision.winner]
        confirmed = [f for f in self.confirmation.finalists if f.deciding is not None]
        return next(iter(named or confirmed), None)

    @property
    def deciding(self) -> Speedup | None:
        """The speed-up that the verdict was made from."""
        return self.decision.speedup or (self.best.deciding if self.best else None)

    @cached_property
    def timings(self) -> dict[str, float]:
        """Seconds that were spent in each phase."""
        return {
            "build": sum(e["seconds"] for e in self.events if e["event"] == "build"),
            "validate": sum(e["seconds"] for e in self.events if e["event"] == "validation"),
            "race": self.race.seconds,
            "confirm": self.confirmation.seconds,
        }

    @cached_property
    def cost(self) -> float:
        """Seconds that the optimization takes when nothing of it was built before."""
        outcomes = [v.candidate.outcome for v in self.validations]
        built = sum_costs(self.setting.workplace.store, [o for o in outcomes if isinstance(o, Artifact)])
        return built + sum(seconds for phase, seconds in self.timings.items() if phase != "build")


def gather_evidence(findings: Findings) -> Evidence:
    """Return the evidence of a run.

    Args:
        findings: All that it found out.

    Returns:
        The evidence, complete before anything is published.
    """
    recipe, version, source = findings.setting.recipe, findings.version, findings.setting.source
    return Evidence(
        run_id=findings.setting.workplace.run_id,
        created=dt.datetime.now(dt.UTC),
        producer=f"kedro-hone {kedro_hone.__version__}",
        recipe={**recipe.model_dump(mode="json"), "digest": recipe.digest},
        verdict=findings.decision.verdict,
        reasons=findings.decision.reasons,
        source=records.SourceRecord(
            uri=version.uri,
            version=version.version,
            format=source.format,
            digest=source.digest,
            baseline=findings.decision.baseline,
        ),
        winner=_record_winner(findings),
        **_record_speed(findings),
        **_record_candidates(findings),
        **_record_provenance(findings),
    )


def _record_speed(findings: Findings) -> dict[str, Any]:
    baseline, deciding, best = findings.decision.baseline, findings.deciding, findings.best
    return {
        "speedup": conversion.record_speedup(deciding, baseline=baseline) if deciding else None,
        "speedups": tuple(conversion.record_speedup(s, baseline=baseline) for s in (best.speedups if best else ())),
        "latency": _record_latency(findings),
        "break_even_calls": _find_break_even(findings),
        "optimization_seconds": findings.cost,
        "timings": findings.timings,
    }


def _record_candidates(findings: Findings) -> dict[str, Any]:
    baseline, race, confirmation = findings.decision.baseline, findings.race, findings.confirmation
    standings = {standing.id: standing for standing in race.standings}
    ordered = sorted(findings.validations, key=lambda v: v.candidate.id)
    qualities = findings.decision.quality
    return {
        "candidates": (
            _record_source(findings),
            *(conversion.record_candidate(v, standings.get(v.candidate.id)) for v in ordered),
        ),
        "finalists": tuple(conversion.record_finalist(f, baseline=baseline) for f in confirmation.finalists),
        "quality": tuple(
            conversion.record_quality(name, quality, provable=_find_provable(findings.reference, quality))
            for name, quality in qualities
        ),
        "gates": findings.decision.gates,
        "race": records.RaceRecord(
            rounds=race.rounds, seconds=race.seconds, budget_ended=race.budget_ended, samples=SAMPLES
        ),
        "confirmation": records.ConfirmationRecord(
            launches=confirmation.launches,
            looks=confirmation.looks,
            seconds=confirmation.seconds,
            control=tuple(conversion.record_speedup(c, baseline=baseline) for c in confirmation.control),
            samples=SAMPLES,
        ),
    }


def _record_provenance(findings: Findings) -> dict[str, Any]:
    setting = findings.setting
    return {
        "hardware": _record_hardware(setting.recipe.thread_count),
        "environments": _record_environments(findings),
        "data": tuple(
            provenance.DataRecord(split=s.name, path=s.path, md5=s.md5, rev=s.resolved_rev, n=s.n)
            for s in setting.samples.splits.values()
        ),
        "steps": _record_steps(findings),
        "counts": _count(findings),
    }


def _record_source(findings: Findings) -> records.CandidateRecord:
    """The source is a candidate too, and what the others are compared with."""
    reference, race = findings.reference, findings.race
    same = Interval(estimate=0.0, low=0.0, high=0.0)
    value, metric = reference.value, reference.metric
    quality = Quality(metric=metric, split=SEARCH, source=value, candidate=value, drop=same, n=reference.n)
    return records.CandidateRecord(
        id="source",
        route=(),
        status=Status.MEASURED,
        latency=race.source_latency,
        ratios={latency.shape: 1.0 for latency in race.source_latency},
        quality=conversion.record_quality("source", quality),
        size_bytes=sum(measure_files(findings.setting.source.folder).values()),
        cold_start_ms=reference.cold_start_ms,
        peak_memory_bytes=reference.peak_memory_bytes,
        rounds=race.rounds,
    )


def _record_winner(findings: Findings) -> records.WinnerRecord | None:
    artifact, name = findings.decision.artifact, findings.decision.winner
    if artifact is None or name is None or findings.winner is None:
        return None
    return records.WinnerRecord(
        candidate=name,
        route=next(v.candidate.route for v in findings.validations if v.candidate.id == name),
        format=artifact.format,
        digest=artifact.digest,
        runtime=artifact.runtime or "",
        path=os.path.relpath(findings.winner),
    )


def _record_latency(findings: Findings) -> records.LatencyRecord | None:
    source = {row.shape: row for row in findings.confirmation.source_latency or findings.race.source_latency}
    winner = findings.best if findings.decision.winner else None
    mine = {row.shape: row for row in winner.latency} if winner else {}
    if not source:
        return None
    asked = findings.deciding.shape if findings.deciding else ""
    deciding = asked if asked in source else next(iter(source))
    return records.LatencyRecord(
        source=source[deciding],
        winner=mine.get(deciding),
        shapes=tuple(records.ShapeLatency(shape=s, source=row, winner=mine.get(s)) for s, row in source.items()),
    )


def _find_provable(reference: Reference, quality: Quality) -> float | None:
    if reference.kind != "proportion":
        return None
    return smallest_provable_drop(quality.n, quality.drop.confidence)


def _find_break_even(findings: Findings) -> int | None:
    """Return after how many calls at the deciding shape the time that the optimization took is saved."""
    latency = _record_latency(findings)
    if latency is None or latency.winner is None:
        return None
    saved = latency.source.p50_ms - latency.winner.p50_ms
    return round(findings.cost * 1e3 / saved) if saved > 0 else None


def _record_hardware(threads: int) -> provenance.Hardware:
    known = {name: value for name, value in describe_hardware().items() if name in provenance.Hardware.model_fields}
    return provenance.Hardware.model_validate({**known, "threads": threads})


def _record_environments(findings: Findings) -> tuple[provenance.EnvironmentRecord, ...]:
    catalogue = read_catalogue()
    names = {str(findings.setting.source.runtime)} | {
        part.split(".")[0] for v in findings.validations if v.quality is not None for part in v.candidate.route
    }
    rows = []
    for name in sorted(names):
        environment = EnvironmentStore().ensure(catalogue.find_toolchain(name), build=False)
        if not isinstance(environment, Failed):
            rows.append(
                provenance.EnvironmentRecord(
                    toolchain=name,
                    key=environment.key,
                    lock_digest=environment.lock_digest or "",
                    versions=environment.versions,
                )
            )
    return tuple(rows)


def _record_steps(findings: Findings) -> tuple[provenance.Step, ...]:
    return tuple(
        provenance.Step(adaptor=e["adaptor"], run=e["run"], folder=e["folder"], seconds=e["seconds"], outcome=e["kind"])
        for e in findings.events
        if e["event"] == "build"
    )


def _count(findings: Findings) -> provenance.Counts:
    counted = Counter(str(event["event"]) for event in findings.events)
    return provenance.Counts(builds=counted["build"], validations=counted["validation"], launches=counted["launch"])
