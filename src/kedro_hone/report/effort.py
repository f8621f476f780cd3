"""The effort of a comparison: its steps, validations and launches, and their seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hone_runtime.values.artifact import Artifact, StepFacts
from hone_runtime.values.decision import Decision
from hone_runtime.values.measurement import ConfirmationResult, RaceResult, Validation
from hone_runtime.values.samples import Reference
from kedro_hone.report import records


def sum_effort(
    reference: Reference, *, race: RaceResult, confirmation: ConfirmationResult, decision: Decision
) -> dict[str, Any]:
    """Return the evidence's ``steps``, ``counts``, ``phase_seconds`` and ``optimization_seconds``.

    The first three cover the work since the baseline was computed, in any run, without results that were already in the
    store. The last is the time of all work with an empty store.
    """
    steps, validations = find_new_steps(race.validations), find_new_validations(race.validations)
    since = min((validation.since for validation in race.validations), default=reference.since)
    baseline = int(bool(reference.run) and reference.run >= since)
    every_step = {step.key: step for v in race.validations for step in v.candidate.outcome.steps}
    validating = sum(validation.seconds for validation in validations)
    measured = {"validate": validating, "race": race.seconds, "confirm": confirmation.seconds}
    launches = baseline + len(validations) + race.workers + confirmation.workers + decision.workers
    return {
        "steps": steps,
        "counts": records.Counts(
            builds=len(steps),
            validations=len(validations),
            launches=launches,
            reused_failures=sum(one.reused_failure for one in race.validations),
        ),
        "phase_seconds": {"build": sum(step.seconds for step in steps), **measured},
        "optimization_seconds": sum(step.seconds for step in every_step.values()) + sum(measured.values()),
    }


def find_new_steps(validations: Iterable[Validation]) -> tuple[StepFacts, ...]:
    """Return the steps of all routes that were built since the baseline was computed, in the order of their start."""
    steps = ((step, v.since) for v in validations for step in v.candidate.outcome.steps)
    new = {step.key: step for step, since in steps if step.run and step.run >= since}
    return tuple(sorted(new.values(), key=lambda step: (step.run, step.folder)))


def find_new_validations(validations: Iterable[Validation]) -> tuple[Validation, ...]:
    """Return the validations since the baseline was computed; one for all candidates with the same artifact."""
    new = [v for v in validations if v.run and v.run >= v.since]
    return tuple({o.digest: v for v in new if isinstance(o := v.candidate.outcome, Artifact)}.values())


def find_break_even(latency: records.LatencyRecord | None, cost: float) -> int | None:
    """Return after how many calls at the deciding shape the optimization pays off; None if calls save no time."""
    if latency is None or latency.winner is None:
        return None
    saved = latency.source.call_ms - latency.winner.call_ms
    return round(cost * 1e3 / saved) if saved > 0 else None
