"""What a comparison took: the steps, validations and worker processes that were run for it, not found in the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kedro_hone.core.values.artifact import Artifact, StepFacts
from kedro_hone.core.values.decision import Decision
from kedro_hone.core.values.measurement import Confirmation, RaceResult, Validation
from kedro_hone.core.values.samples import Reference


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What was run since the baseline was taken, in whichever runs.

    Attributes:
        steps: The steps that were built, each once, in the order in which they began.
        validations: The candidates that were validated; of those with the same artifact, one.
        workers: How many worker processes were launched in which a model ran.
        seconds: How long each phase took: build, validate, race and confirm.
        total: Seconds that all of it takes when nothing is in the store.
    """

    steps: tuple[StepFacts, ...]
    validations: tuple[Validation, ...]
    workers: int
    seconds: dict[str, float]
    total: float


def sum_effort(reference: Reference, *, race: RaceResult, confirmation: Confirmation, decision: Decision) -> Effort:
    """Return what a comparison took, from the values of its nodes."""
    steps, validations = find_new_steps(race.validations), find_new_validations(race.validations)
    since = min((validation.since for validation in race.validations), default=reference.since)
    baseline = int(bool(reference.run) and reference.run >= since)
    every_step = {step.key: step for v in race.validations for step in v.candidate.outcome.steps}
    seconds = {
        "build": sum(step.seconds for step in steps),
        "validate": sum(validation.seconds for validation in validations),
        "race": race.seconds,
        "confirm": confirmation.seconds,
    }
    return Effort(
        steps=steps,
        validations=validations,
        workers=baseline + len(validations) + race.workers + confirmation.workers + decision.workers,
        seconds=seconds,
        total=sum(step.seconds for step in every_step.values()) + sum(seconds.values()) - seconds["build"],
    )


def find_new_steps(validations: Iterable[Validation]) -> tuple[StepFacts, ...]:
    """Return the steps of all routes that were built since the baseline was taken, in the order in which they began."""
    steps = ((step, v.since) for v in validations for step in v.candidate.outcome.steps)
    new = {step.key: step for step, since in steps if step.run and step.run >= since}
    return tuple(sorted(new.values(), key=lambda step: (step.run, step.folder)))


def find_new_validations(validations: Iterable[Validation]) -> tuple[Validation, ...]:
    """Return what was validated since the baseline was taken; of candidates with the same artifact, one."""
    new = [v for v in validations if v.run and v.run >= v.since]
    return tuple({o.digest: v for v in new if isinstance(o := v.candidate.outcome, Artifact)}.values())
