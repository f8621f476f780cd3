"""Assemble the evidence for the verdict, and write it: evidence.json, report.html, report.md and timings.npz."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kedro_hone
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.proof import EVIDENCE, GOLDEN, TIMINGS, EvidenceFolder, explain_incomplete
from hone_runtime.contract.registry import VersionInfo
from hone_runtime.text import hide_secrets, open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.composite import read_parts
from hone_runtime.values.decision import Decision
from hone_runtime.values.digest import digest_json
from hone_runtime.values.forms import WinnerForm, WinnerForms
from hone_runtime.values.measurement import (
    Checks,
    Confirmation,
    ConfirmationResult,
    Interval,
    Quality,
    RaceResult,
    Standing,
    Status,
    Validation,
)
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import SEARCH, Predicted, Reference
from hone_runtime.values.wire import WireOutcome, WireResult
from kedro_hone.programs import digest_metric
from kedro_hone.recipe.environments import find_environment
from kedro_hone.report import records
from kedro_hone.report.effort import find_break_even, sum_effort
from kedro_hone.report.evidence import Evidence, dump_evidence, parse_evidence
from kedro_hone.report.files import copy_evidence, point_latest, store_winner, write_reports
from kedro_hone.report.front import find_front
from kedro_hone.report.percentiles import list_percentiles
from kedro_hone.report.throughputs import list_throughputs
from kedro_hone.report.tunings import read_tuning
from kedro_hone.search.context import RunContext
from kedro_hone.search.race.timings import SOURCE, write_timings
from kedro_hone.search.verdict.verdict import find_contradiction
from kedro_hone.serving.image.leaks import hide_places, read_private

logger = open_logger(__name__)


def report(
    *,
    context: RunContext,
    result: RaceResult,
    confirmation: ConfirmationResult,
    decision: Decision,
    version: VersionInfo,
    reference: Reference,
    wire: WireResult | None = None,
    forms: WinnerForms | None = None,
) -> tuple[Evidence, EvidenceFolder]:
    """Put the evidence and the reports of a run into the store, and copies for the user into the run's folder.

    They are made only from values: no files of other runs are read.

    Returns:
        The evidence as it is in ``evidence.json``, and the digests of all files, which identify the tree in the store.

    Raises:
        HoneError: ``evidence-incomplete``: the decision contradicts the measurements, or the raw timings of the race or
            of the confirmation are not in the store.
    """
    run, store, won = context.run, context.store, decision.artifact
    if fault := find_contradiction(decision, result, confirmation, gates=context.recipe.all_gates):
        again = "kedro-hone run --pipelines compare --from-nodes gate.gate"
        hint = f"Run the gates again: `{again}`. Nothing is measured again."
        raise explain_incomplete(run.run_id, f"The decision is not what was measured. {fault}", hint=hint)
    with store.workspace() as stage:
        write_timings(stage / TIMINGS, {"race": result.timings, "confirm": confirmation.timings}, store)
        evidence = gather_evidence(
            context=context,
            version=version,
            reference=reference,
            race=result,
            confirmation=confirmation,
            decision=decision,
            wire=wire,
            forms=forms.forms if forms else (),
            path=run.relate(store_winner(won, store.locate(won), run.folder)) if won else "",
            timings=np.load(stage / TIMINGS, allow_pickle=False),
        )
        text = hide_secrets(dump_evidence(evidence), variables={})  # their values may be words that it needs
        evidence = parse_evidence(text)
        (stage / EVIDENCE).write_text(text, encoding="utf-8")
        write_reports(evidence, stage)
        if decision.golden:
            (stage / GOLDEN).write_bytes((store.locate_tree(decision.golden) / GOLDEN).read_bytes())
        sealed = EvidenceFolder.read(run.run_id, stage, decision=decision.identity)
        files = store.store_tree(sealed.digest, stage)
    copy_evidence(files, run.folder)
    point_latest(run.root.parent, run.folder)
    logger.info("report    %s", run.folder / "report.html")
    return evidence, sealed


def gather_evidence(
    *,
    context: RunContext,
    version: VersionInfo,
    reference: Reference,
    race: RaceResult,
    confirmation: ConfirmationResult,
    decision: Decision,
    forms: tuple[WinnerForm, ...],
    path: str,
    wire: WireResult | None = None,
    timings: Mapping[str, NDArray[Any]],
) -> Evidence:
    """Return the evidence of a run, complete before anything is published.

    ``path`` is the winner's folder, and ``timings`` are the arrays of ``timings.npz``.
    """
    recipe, source, validations = context.recipe, context.source, race.validations
    effort = sum_effort(reference, race=race, confirmation=confirmation, decision=decision)
    speed = _compare_speed(confirmation, decision)
    compared = _select_timings(context, confirmation, decision, timings)
    standings = {standing.id: standing for standing in race.standings}
    joined = [join_candidate(one, standings.get(name)) for name, one in sorted(race.validated.items())]
    private = read_private(context.run.project)  # evidence is published, and a toolchain's error may quote any path
    joined = [one.model_copy(update={"reason": hide_places(one.reason, private)}) for one in joined]
    confirmed = confirmation.model_dump(include={*Confirmation.model_fields} - {"subject"})
    raced = race.model_dump(include={"rounds", "seconds", "budget_ended", "other_load"})
    return Evidence(
        run_id=context.run.run_id,
        created=confirmation.ended,
        producer=f"kedro-hone {kedro_hone.__version__}",
        recipe={**recipe.model_dump(mode="json"), "digest": recipe.digest},
        verdict=decision.verdict,
        reasons=decision.reasons,
        source=records.SourceRecord(
            **version.model_dump(include={"uri", "version", "base"}),
            **source.model_dump(include={"format", "digest"}),
            baseline=decision.baseline,
        ),
        program=_make_program(context),
        winner=_make_winner(decision, race, path),
        forms=forms,
        percentiles=list_percentiles(shapes=recipe.shapes, **compared),
        throughputs=list_throughputs(shapes=recipe.sizes, clients=recipe.clients, **compared),
        operators=confirmation.operators,
        quality=decision.quality,
        gates=decision.gates,
        candidates=(_join_source(context.store.measure(source), reference, race), *joined),
        front=find_front(joined),
        choice=race.choice,
        race=records.RaceRecord(**raced, timings=TIMINGS),
        confirmation=Confirmation(**confirmed, subject=digest_json(confirmation.made_from)),
        hardware=confirmation.hardware,
        environments=_list_environments(context, validations),
        data=tuple(context.samples.splits.values()),
        wire=wire and WireOutcome(comparison=wire.comparison, reason=hide_places(wire.reason, private)),
        break_even_calls=find_break_even(speed["latency"], effort["optimization_seconds"]),
        **speed,
        **effort,
    )


def join_candidate(validation: Validation, standing: Standing | None) -> records.CandidateRecord:
    """Combine the validation and the standing of one candidate; a valid one that did not race was not tried."""
    status, reason, outcome = validation.status, validation.reason, validation.candidate.outcome
    failure = outcome.failure.value if isinstance(outcome, Failed) else validation.slug
    raced: dict[str, Any] = {}
    if standing is not None:
        status, reason, failure = standing.status, standing.reason or reason, standing.slug or failure
        raced = {"speedup": standing.objective, **standing.model_dump(include={"latency", "ratios", "rounds"})}
    elif status is Status.MEASURED:
        status, reason = Status.NOT_TRIED, reason or "It was valid, but did not enter the race."
    metadata, parts = (outcome.metadata, read_parts(outcome)) if isinstance(outcome, Artifact) else ({}, ())
    machine_options = metadata.get("machine_options", {})
    return records.CandidateRecord(
        id=validation.candidate.id,
        route=validation.candidate.route,
        status=status,
        reason="" if status is Status.MEASURED else reason,
        failure_class=(failure or None) if status is Status.FAILED else None,
        build_seconds=validation.build_seconds,
        cached=validation.cached,
        machine_options=machine_options,
        options=validation.candidate.options,
        parts={shape: part.candidate for part in parts for shape in part.shapes},
        tuning=read_tuning(metadata),
        **raced,
        **{name: getattr(validation, name) for name in Checks.model_fields if name != "note"},
        note=" ".join(filter(None, _list_notes(validation, machine_options))),
    )


def _list_notes(validation: Validation, machine_options: Mapping[str, Mapping[str, Json]]) -> Iterator[str]:
    """Yield remarks on a candidate: options with a machine-specific default, a language model's cache, its parts."""
    yield validation.note
    outcome = validation.candidate.outcome
    if not isinstance(outcome, Artifact):
        return
    rows = machine_options.items()
    pairs = [f"{adaptor}: {name}={json.dumps(value)}" for adaptor, row in rows for name, value in row.items() if value]
    if pairs:
        yield f"Options whose default depends on the CPU: {'; '.join(pairs)}."
    if outcome.metadata.get("transformers", {}).get("auto_class") == "AutoModelForCausalLM":
        lack = outcome.metadata.get("cache", {"absent": "its converter makes none"}).get("absent")
        without = f"It has no cache of keys and values, so generate runs the whole sequence each time: {lack}."
        yield "It has a cache of keys and values for generate." if lack is None else without
    if parts := read_parts(outcome):
        served = [", ".join((*part.shapes, *(["all other shapes"] if part is parts[0] else []))) for part in parts]
        pairs = [f"{shapes} by {part.candidate}" for part, shapes in zip(parts, served, strict=True)]
        yield f"A composite: {'; '.join(pairs)}."


def _join_source(size_bytes: int, reference: Reference, race: RaceResult) -> records.CandidateRecord:
    """Return the record of the source, the reference for the other candidates."""
    return records.CandidateRecord(
        id=SOURCE,
        route=(),
        status=Status.MEASURED,
        latency=race.source_latency,
        ratios={latency.shape: 1.0 for latency in race.source_latency},
        quality=Quality(
            **reference.model_dump(include={"metric", "higher_is_better", "n"}),
            split=SEARCH,
            source=reference.value,
            candidate=reference.value,
            drop=Interval(estimate=0.0, low=0.0, high=0.0),
        ),
        size_bytes=size_bytes,
        rounds=race.rounds,
        **reference.model_dump(include={*Predicted.model_fields}),
    )


def _make_program(context: RunContext) -> records.ProgramRecord:
    name, metric = context.recipe.program.name, context.recipe.program.metric
    scores = digest_metric(metric, project=context.run.project) or ""
    return records.ProgramRecord(
        name=name, digest=context.samples.program_digest, metric=metric or "", metric_digest=scores
    )


def _make_winner(decision: Decision, race: RaceResult, path: str) -> records.WinnerRecord | None:
    artifact, name = decision.artifact, decision.winner
    if artifact is None or name is None:
        return None
    return records.WinnerRecord(
        candidate=name,
        route=race.validated[name].candidate.route,
        runtime=artifact.runtime or "",
        path=path,
        interface=str(artifact.metadata.get("interface", "")),
        **artifact.model_dump(include={"format", "digest"}),
    )


def _compare_speed(confirmation: ConfirmationResult, decision: Decision) -> dict[str, Any]:
    """Return the speed-ups and times of the reported finalist, at the deciding shape and at each shape."""
    finalist = confirmation.find_reported(decision.winner, decision.speedup)
    speedup = decision.speedup or (finalist.deciding if finalist else None)
    after = {row.shape: row for row in finalist.latency} if finalist and decision.winner else {}
    latencies = {
        row.shape: records.LatencyRecord(source=row, winner=after.get(row.shape)) for row in confirmation.source_latency
    }
    return {
        "speedup": speedup,
        "speedups": finalist.speedups if finalist else (),
        "latency": latencies.get(speedup.shape if speedup else "", next(iter(latencies.values()), None)),
        "latencies": tuple(latencies.values()),
    }


def _select_timings(
    context: RunContext, confirmation: ConfirmationResult, decision: Decision, timings: Mapping[str, NDArray[Any]]
) -> dict[str, Any]:
    """Return the arguments for figures of the source and of the reported finalist, if it was launched to the end."""
    finalist = confirmation.find_reported(decision.winner, decision.speedup)
    return {
        "timings": timings,
        "names": [SOURCE, *([finalist.id] if finalist and not finalist.reason else [])],
        "rounds": context.recipe.confirm.rounds,
        "confidence": context.recipe.gates.confidence,
    }


def _list_environments(context: RunContext, validations: Sequence[Validation]) -> tuple[records.EnvironmentRecord, ...]:
    catalogue = read_catalogue()
    routes = [one.candidate.route for one in validations if one.quality is not None]
    names = {str(context.source.runtime), *(part.split(".")[0] for route in routes for part in route)}
    found = [find_environment(context.recipe, catalogue.find_toolchain(name), build=False) for name in sorted(names)]
    found = [one for one in found if not isinstance(one, Failed)]
    return tuple(records.EnvironmentRecord.model_validate(one, from_attributes=True) for one in found)
