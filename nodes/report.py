"""Write down what proves the verdict: evidence.json, report.html and report.md."""

from __future__ import annotations

import datetime as dt
import logging
import os
from pathlib import Path
from typing import Any

import kedro_hone
from kedro_hone.core.contract import Publication, VersionInfo
from kedro_hone.core.envs import EnvironmentStore
from kedro_hone.core.host import describe_hardware
from kedro_hone.core.measurement import Confirmation, Decision, Finalist, RaceResult, Validation
from kedro_hone.core.registry import read_catalogue
from kedro_hone.core.samples import Reference, Samples
from kedro_hone.core.stats import smallest_provable_drop
from kedro_hone.core.types import Artifact, Failed
from kedro_hone.core.workplace import Workplace
from kedro_hone.nodes.costs import sum_costs
from kedro_hone.recipe import read_recipe
from kedro_hone.report import conversion, provenance, records
from kedro_hone.report.evidence import Evidence, dump_evidence
from kedro_hone.report.markdown import render_markdown
from kedro_hone.report.page import render_page

logger = logging.getLogger(__name__)


def report(
    *,
    result: RaceResult,
    confirmation: Confirmation,
    decision: Decision,
    version: VersionInfo,
    source: Artifact,
    reference: Reference,
    samples: Samples,
    parameters: dict[str, Any],
    workplace: Workplace,
    **validations: Validation,
) -> Evidence:
    """Write the evidence and the reports of a run.

    Args:
        result: The race.
        confirmation: The finalists.
        decision: The verdict.
        version: The source's version in its registry.
        source: The source model.
        reference: The source's score on the search split.
        samples: The prepared data.
        parameters: The recipe.
        workplace: Where the run works.
        **validations: What ``validate`` found.

    Returns:
        The evidence, as it stands in ``evidence.json``.
    """
    recipe = read_recipe(parameters)
    best = find_best(confirmation, decision)
    deciding = decision.speedup or (best.deciding if best else None)
    standings = {standing.id: standing for standing in result.standings}
    timings = _read_timings(workplace, result, confirmation)
    artifacts = [v.candidate.outcome for v in validations.values() if isinstance(v.candidate.outcome, Artifact)]
    spent = sum_costs(workplace.store, artifacts) + timings["validate"] + timings["race"] + timings["confirm"]
    evidence = Evidence(
        run_id=workplace.run_id,
        created=dt.datetime.now(dt.UTC),
        producer=f"kedro-hone {kedro_hone.__version__}",
        recipe={**recipe.model_dump(mode="json"), "digest": recipe.digest},
        verdict=decision.verdict,
        reasons=decision.reasons,
        source=records.SourceRecord(
            uri=version.uri, version=version.version, format=source.format, digest=source.digest
        ),
        winner=_record_winner(decision, validations),
        speedup=conversion.record_speedup(deciding, baseline=decision.baseline) if deciding else None,
        speedups=tuple(
            conversion.record_speedup(s, baseline=decision.baseline) for s in (best.speedups if best else ())
        ),
        latency=_record_latency(
            confirmation, result, best if decision.winner else None, deciding.shape if deciding else ""
        ),
        quality=tuple(
            conversion.record_quality(
                name, quality, provable=_find_provable(reference, quality.n, quality.drop.confidence)
            )
            for name, quality in decision.quality
        ),
        candidates=tuple(
            conversion.record_candidate(v, standings.get(v.candidate.id))
            for v in sorted(validations.values(), key=lambda v: v.candidate.id)
        ),
        finalists=tuple(conversion.record_finalist(f, baseline=decision.baseline) for f in confirmation.finalists),
        race=records.RaceRecord(
            rounds=result.rounds, seconds=result.seconds, budget_ended=result.budget_ended, samples=result.samples
        ),
        confirmation=records.ConfirmationRecord(
            launches=confirmation.launches,
            looks=confirmation.looks,
            seconds=confirmation.seconds,
            control=tuple(conversion.record_speedup(c, baseline=decision.baseline) for c in confirmation.control),
            samples=confirmation.samples,
        ),
        hardware=_record_hardware(recipe.thread_count),
        environments=_record_environments(validations, source),
        data=tuple(
            provenance.DataRecord(split=s.name, path=s.path, md5=s.md5, rev=s.resolved_rev, n=s.n)
            for s in samples.splits.values()
        ),
        steps=_record_steps(workplace),
        timings=timings,
        optimization_seconds=spent,
        break_even_calls=_find_break_even(
            confirmation, best if decision.winner else None, deciding.shape if deciding else "", spent
        ),
        counts=_count(workplace),
    )
    write_reports(evidence, workplace.folder)
    point_latest(Path(workplace.root), workplace.folder)
    logger.info("report    %s", workplace.folder / "report.html")
    return evidence


def find_best(confirmation: Confirmation, decision: Decision) -> Finalist | None:
    """Return the winner, or the best finalist where there is no winner, or None."""
    named = [f for f in confirmation.finalists if f.id == decision.winner]
    confirmed = [f for f in confirmation.finalists if f.deciding is not None]
    return next(iter(named or confirmed), None)


def write_reports(evidence: Evidence, folder: Path, publication: Publication | None = None) -> None:
    """Write the three files, each of them whole or not at all.

    Args:
        evidence: What is written.
        folder: The run's folder.
        publication: Where the winner went, once it was published.
    """
    texts = {
        "evidence.json": dump_evidence(evidence),
        "report.html": render_page(evidence, publication),
        "report.md": render_markdown(evidence, publication),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        temporary = folder / f".{name}"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(folder / name)


def point_latest(root: Path, folder: Path) -> None:
    """Let ``latest`` point to a run's folder, without a moment in which it points nowhere."""
    temporary = root / f".latest-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(folder, root))
    temporary.replace(root / "latest")


def _record_hardware(threads: int) -> provenance.Hardware:
    known = {name: value for name, value in describe_hardware().items() if name in provenance.Hardware.model_fields}
    return provenance.Hardware.model_validate({**known, "threads": threads})


def _record_winner(decision: Decision, validations: dict[str, Validation]) -> records.WinnerRecord | None:
    if decision.winner is None or decision.artifact is None:
        return None
    route = next(v.candidate.route for v in validations.values() if v.candidate.id == decision.winner)
    artifact = decision.artifact
    return records.WinnerRecord(
        candidate=decision.winner,
        route=route,
        format=artifact.format,
        digest=artifact.digest,
        runtime=artifact.runtime or "",
        path=os.path.relpath(artifact.path),
    )


def _record_latency(
    confirmation: Confirmation, result: RaceResult, winner: Finalist | None, shape: str
) -> records.LatencyRecord | None:
    source = {row.shape: row for row in confirmation.source_latency or result.source_latency}
    mine = {row.shape: row for row in winner.latency} if winner else {}
    if not source:
        return None
    deciding = shape if shape in source else next(iter(source))
    return records.LatencyRecord(
        source=source[deciding],
        winner=mine.get(deciding),
        shapes=tuple(records.ShapeLatency(shape=s, source=row, winner=mine.get(s)) for s, row in source.items()),
    )


def _find_provable(reference: Reference, rows: int, confidence: float) -> float | None:
    return smallest_provable_drop(rows, confidence) if reference.kind == "proportion" else None


def _find_break_even(confirmation: Confirmation, winner: Finalist | None, shape: str, seconds: float) -> int | None:
    """Return after how many calls at the deciding shape the time that the optimization took is saved."""
    source = {row.shape: row.p50_ms for row in confirmation.source_latency}
    mine = {row.shape: row.p50_ms for row in winner.latency} if winner else {}
    saved = source.get(shape, 0.0) - mine.get(shape, 0.0)
    return round(seconds * 1e3 / saved) if winner and saved > 0 else None


def _record_environments(
    validations: dict[str, Validation], source: Artifact
) -> tuple[provenance.EnvironmentRecord, ...]:
    catalogue = read_catalogue()
    names = {str(source.runtime)} | {
        part.split(".")[0] for v in validations.values() if v.quality is not None for part in v.candidate.route
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


def _record_steps(workplace: Workplace) -> tuple[provenance.Step, ...]:
    return tuple(
        provenance.Step(adaptor=e["adaptor"], folder=e["folder"], seconds=e["seconds"], outcome=e["kind"])
        for e in workplace.read_events()
        if e["event"] == "build"
    )


def _read_timings(workplace: Workplace, result: RaceResult, confirmation: Confirmation) -> dict[str, float]:
    events = workplace.read_events()
    return {
        "build": sum(e["seconds"] for e in events if e["event"] == "build"),
        "validate": sum(e["seconds"] for e in events if e["event"] == "validation"),
        "race": result.seconds,
        "confirm": confirmation.seconds,
    }


def _count(workplace: Workplace) -> provenance.Counts:
    counted = workplace.count_events()
    return provenance.Counts(
        builds=counted.get("build", 0), validations=counted.get("validation", 0), launches=counted.get("launch", 0)
    )
