"""Validate each candidate before the race: its saved files, opened in a new process, at several batch sizes.

Silent wrong results are the reason (a quantized network that is right at one batch size and wrong at another, a
package that returns the wrong number of rows): so every candidate predicts the whole search split at every shape of the
recipe, and at an odd size where it takes any, and the worst of them counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from kedro_hone.building.steps import identify_runtime
from kedro_hone.comparing.arrays import UNREADABLE, open_arrays
from kedro_hone.comparing.scoring import predict, score_predictions
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.toolchain import Licence
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.measurement import Quality, Status, Validation
from kedro_hone.core.values.outcome import Candidate, Failed, FailureClass, Outcome, Refused
from kedro_hone.core.values.samples import SEARCH, Reference

logger = open_logger(__name__)

VERSION = 6
"""Increase it when the code would validate differently; it is part of a validation's key in the store."""

ODD_BATCH = 7
"""A size that no recipe names: what was specialized by mistake shows at it."""


def validate(
    *, setting: Setting, outcome: Outcome, reference: Reference, candidate: str, route: tuple[str, ...]
) -> Validation:
    """Check the outcome of one candidate's route; for a candidate that may not race, the validation has the reason."""
    named = Candidate(id=candidate, route=route, outcome=outcome)
    judge = partial(Validation, candidate=named, since=reference.since)
    if isinstance(outcome, Refused):
        return judge(status=Status.REFUSED, slug=outcome.slug, reason=f"{outcome.by}: {outcome.reason}")
    if isinstance(outcome, Failed):
        return judge(status=Status.FAILED, slug=outcome.failure, reason=f"{outcome.by}: {outcome.reason}")
    gates, compared = setting.recipe.gates, [outcome.digest, reference.digest, setting.samples.digest]
    asked = [gates.drop, gates.confidence, setting.recipe.seed]
    key = digest_json(["validation", VERSION, *compared, *asked, *identify_runtime(outcome)])
    known = setting.store.read_value(key)
    if known is not None:
        found = Validation.model_validate(known)
        # The same artifact may have been validated as another candidate.
        quality = found.quality and found.quality.model_copy(update={"id": candidate})
        return found.model_copy(update={**judge.keywords, "quality": quality})
    started = time.monotonic()
    checked = _check(outcome, reference, setting, name=candidate, judge=judge)
    validation = checked.model_copy(update={"run": setting.run.run_id, "seconds": time.monotonic() - started})
    noted = validation.model_dump(include={"status", "reason", "seconds"})
    setting.run.note("validation", candidate=candidate, **noted)
    logger.info("%-9s %s%s", validation.status, candidate, f": {validation.reason}" if validation.reason else "")
    if not (validation.slug in set(FailureClass) and FailureClass(validation.slug).transient):
        setting.store.write_value(key, validation.model_dump(mode="json"))
    return validation


def _check(
    artifact: Artifact, reference: Reference, setting: Setting, *, name: str, judge: Callable[..., Validation]
) -> Validation:
    """Compare the outputs of a candidate's artifact, and their score, with the source's."""
    outputs, split = setting.store.locate_tree(reference.digest) / reference.outputs, setting.samples.splits[SEARCH]
    batches = {shape.name: shape.batch for shape in setting.recipe.all_shapes}
    if not artifact.static_shapes:
        batches[f"batch {ODD_BATCH}"] = ODD_BATCH
    failed = partial(judge, status=Status.FAILED)
    with setting.store.workspace() as scratch:
        sizes = {scratch / f"{batch}.npz": batch for batch in batches.values()}
        predicted = predict(artifact, name=name, split=split, outputs=sizes, setting=setting)
        if isinstance(predicted, Failed):
            return failed(slug=predicted.failure, reason=f"{predicted.by}: {predicted.reason}")
        predictions = {where: scratch / f"{batch}.npz" for where, batch in batches.items()}
        error = _compare(predictions, outputs)
        if not isinstance(error, float):
            return failed(slug=error[0], reason=error[1])
        scores = score_predictions(predictions, reference=outputs, split=split, setting=setting)
    for reason in scores.values():
        if isinstance(reason, str):
            return failed(slug=FailureClass.BAD_OUTPUT, reason=reason)
    judged = {where: found for where, found in scores.items() if isinstance(found, Quality)}
    where, worst = max(judged.items(), key=lambda item: item[1].drop.estimate)
    limit = setting.recipe.gates.drop
    lost = worst.drop.low > limit
    fell = f"{worst.metric} on the search split fell from {worst.source:.4f} to {worst.candidate:.4f} at {where}"
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    return judge(
        status=Status.DROPPED if lost else Status.MEASURED,
        slug="quality" if lost else "",
        reason=f"{fell}; the recipe allows {limit:g}" if lost else "",
        quality=worst.model_copy(update={"id": name}),
        largest_error=error,
        size_bytes=setting.store.measure(artifact),
        publishable=toolchain.licence is not Licence.EVALUATION,
        note=toolchain.note,
        cold_start_ms=predicted.cold_start_ms,
        peak_memory_bytes=predicted.peak_memory_bytes,
    )


def _compare(predictions: dict[str, Path], reference: Path) -> tuple[FailureClass, str] | float:
    """Return the largest error of all predictions, or the first fault of names, shapes, types or values."""
    largest_error = 0.0
    with open_arrays(reference) as expected:
        for where, path in predictions.items():
            try:
                with open_arrays(path) as found:
                    error = _compare_arrays(expected, found)
            except UNREADABLE as unreadable:
                return FailureClass.BAD_OUTPUT, f"the predictions at {where} cannot be read: {unreadable}"
            if not isinstance(error, float):
                name, (slug, fault) = error
                return slug, f"output {name!r} at {where}: {fault}"
            largest_error = max(largest_error, error)
    return largest_error


def _compare_arrays(expected: NpzFile, found: NpzFile) -> tuple[str, tuple[FailureClass, str]] | float:
    """Return the largest error, relative to its output's largest value, or the name and the fault of an output."""
    largest_error = 0.0
    for name in expected.files:
        want, got = expected[name], found.get(name)
        if fault := _find_fault(want, got):
            return name, fault
        if want.dtype.kind == "U":
            continue  # text has no distance; the program's metric judges it
        want, got = want.astype(np.float64), np.asarray(got, np.float64)
        scale = float(np.abs(want).max(initial=0.0)) or 1.0
        largest_error = max(largest_error, float(np.abs(got - want).max(initial=0.0)) / scale)
    return largest_error


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
