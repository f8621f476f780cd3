"""Check what can run before it may race: the saved artifact, in a new process, at several batch sizes.

Silent wrong results are the reason (a quantized network that is right at one batch size and wrong at another, a
package that returns the wrong number of rows): so every candidate answers the whole search split at every shape of the
recipe, and at an odd size where it takes any, and the worst answer counts.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.building.steps import digest_worker, identify_environment
from kedro_hone.comparing.predictions import score_answers
from kedro_hone.comparing.scoring import Score
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.toolchain import Licence
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.measuring.launches import launch
from kedro_hone.core.store.sealing import measure_files
from kedro_hone.core.store.workplace import Workplace
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.measurement import Status, Validation
from kedro_hone.core.values.outcome import Candidate, Failed, FailureClass, Outcome, Refused
from kedro_hone.core.values.samples import SEARCH, Reference, Samples
from kedro_hone.core.workers.host.session import Session
from kedro_hone.recipe.schema import Recipe

logger = logging.getLogger(__name__)

VERSION = 3
"""Raised when a validation would come out differently; part of its key in the store."""

ODD_BATCH = 7
"""A size that no recipe names: what was specialized by mistake shows at it."""


def validate(
    *,
    outcome: Outcome,
    source: Artifact,
    samples: Samples,
    reference: Reference,
    recipe: Recipe,
    workplace: Workplace,
    candidate: str,
    route: tuple[str, ...],
) -> Validation:
    """Check one candidate.

    Args:
        outcome: What its route produced.
        source: The source model.
        samples: The prepared data.
        reference: The source's answers.
        recipe: The recipe.
        workplace: Where the run works.
        candidate: Its id.
        route: The names of its adaptors.

    Returns:
        What was found; a candidate that may not race says why.
    """
    named = Candidate(id=candidate, route=route, outcome=outcome)
    place = {"candidate": named, "since": reference.since}
    if isinstance(outcome, Refused):
        reason = f"{outcome.by}: {outcome.reason}"
        return Validation(**place, status=Status.REFUSED, slug=outcome.slug, reason=reason)
    if isinstance(outcome, Failed):
        return _fail(named, outcome).model_copy(update=place)
    setting = Setting(source=source, samples=samples, recipe=recipe, workplace=workplace)
    key = _make_key(outcome, reference, setting)
    known = workplace.store.read_value(key)
    if known is not None:
        return Validation.model_validate(known).model_copy(update=place)
    started = time.monotonic()
    checked = _check(named, outcome, reference, setting)
    seconds = time.monotonic() - started
    validation = checked.model_copy(update={"run": workplace.run_id, "seconds": seconds})
    workplace.note(
        "validation", candidate=candidate, status=validation.status, reason=validation.reason, seconds=seconds
    )
    logger.info("%-9s %s%s", validation.status, candidate, f": {validation.reason}" if validation.reason else "")
    if not (validation.slug in set(FailureClass) and FailureClass(validation.slug).transient):
        workplace.store.write_value(key, validation.model_dump(mode="json"))
    return validation.model_copy(update=place)


def _make_key(artifact: Artifact, reference: Reference, setting: Setting) -> str:
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    return digest_json(
        [
            "validation",
            VERSION,
            artifact.digest,
            reference.digest,
            setting.samples.digest,
            setting.recipe.gates.drop,
            setting.recipe.gates.confidence,
            digest_worker(toolchain),
            identify_environment(toolchain),
            read_host().fingerprint,
        ]
    )


def _fail(named: Candidate, failed: Failed) -> Validation:
    reason = f"{failed.by}: {failed.reason}"
    return Validation(candidate=named, status=Status.FAILED, slug=failed.failure, reason=reason)


def _check(named: Candidate, artifact: Artifact, reference: Reference, setting: Setting) -> Validation:
    outputs, split = Path(reference.outputs), setting.samples.splits[SEARCH]
    with setting.workplace.store.workspace() as scratch:
        with launch(
            artifact, name=named.id, workplace=setting.workplace, launching=setting.launching, output=scratch
        ) as session:
            if isinstance(session, Failed):
                return _fail(named, session)
            loaded = session.load(feeds=Path(setting.samples.shapes[setting.shapes[0]]))
            if isinstance(loaded, Failed):
                return _fail(named, loaded)
            answers = _answer_everywhere(session, artifact, setting, scratch)
            if isinstance(answers, Failed):
                return _fail(named, answers)
            memory = session.memory_bytes()
        fault, largest_error = _compare(answers, outputs)
        if fault:
            slug, reason = fault
            return Validation(
                candidate=named, status=Status.FAILED, slug=slug, reason=reason, largest_error=largest_error
            )
        scores = score_answers(answers, reference=outputs, split=split, setting=setting)
    unscored = next((reason for reason in scores.values() if isinstance(reason, str)), None)
    if unscored is not None:
        return Validation(candidate=named, status=Status.FAILED, slug=FailureClass.BAD_OUTPUT, reason=unscored)
    judged = {name: found for name, found in scores.items() if isinstance(found, Score)}
    where, worst = max(judged.items(), key=lambda item: item[1].drop.estimate)
    limit = setting.recipe.gates.drop
    lost = worst.drop.low > limit
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    return Validation(
        candidate=named,
        status=Status.DROPPED if lost else Status.MEASURED,
        slug="quality" if lost else "",
        reason=_explain_loss(worst, where, limit) if lost else "",
        quality=worst.judge(SEARCH, limit),
        largest_error=largest_error,
        size_bytes=sum(measure_files(artifact.folder).values()),
        cold_start_ms=loaded.cold_start_ms,
        peak_memory_bytes=memory,
        publishable=toolchain.licence is not Licence.EVALUATION,
        note=toolchain.note,
    )


def _explain_loss(worst: Score, where: str, limit: float) -> str:
    return (
        f"{worst.metric} on the search split fell from {worst.source:.4f} to {worst.candidate:.4f} at {where}; "
        f"the recipe allows {limit:g}"
    )


def _answer_everywhere(
    session: Session, artifact: Artifact, setting: Setting, scratch: Path
) -> dict[str, Path] | Failed:
    """Answer the search split at every shape, and at an odd batch where any size is taken."""
    batches = {shape.name: shape.batch for shape in setting.recipe.all_shapes}
    if not artifact.static_shapes:
        batches[f"batch {ODD_BATCH}"] = ODD_BATCH
    answers: dict[str, Path] = {}
    for name, batch in batches.items():
        path = scratch / f"{batch}.npz"
        fault = session.run(Path(setting.samples.splits[SEARCH].feeds), path, batch=batch)
        if isinstance(fault, Failed):
            return fault
        answers[name] = path
    return answers


def _compare(answers: dict[str, Path], reference: Path) -> tuple[tuple[FailureClass, str] | None, float | None]:
    """Compare every answer's names, shapes and values with the source's; return the fault, and the largest_error."""
    largest_error = 0.0
    with np.load(reference, allow_pickle=False) as expected:
        for where, path in answers.items():
            with np.load(path, allow_pickle=False) as found:
                for name in expected.files:
                    fault = _find_fault(expected[name], found[name] if name in found.files else None)
                    if fault is not None:
                        return (fault[0], f"output {name!r} at {where}: {fault[1]}"), None
                    if expected[name].dtype.kind == "U":
                        continue  # text has no distance; the program's metric judges it
                    want, got = expected[name].astype(np.float64), found[name].astype(np.float64)
                    scale = float(np.abs(want).max(initial=0.0)) or 1.0
                    largest_error = max(largest_error, float(np.abs(got - want).max(initial=0.0)) / scale)
    return None, largest_error


def _find_fault(want: NDArray[Any], got: NDArray[Any] | None) -> tuple[FailureClass, str] | None:
    if got is None:
        return FailureClass.BAD_OUTPUT, "there is none"
    if got.shape != want.shape:
        return FailureClass.BAD_OUTPUT, f"its shape is {got.shape}, the source's is {want.shape}"
    if got.dtype.kind != want.dtype.kind:
        return FailureClass.BAD_OUTPUT, f"its type is {got.dtype}, the source's is {want.dtype}"
    if got.dtype.kind != "U" and not np.isfinite(got).all():
        return FailureClass.NUMERICS, "some values are not finite"
    return None
