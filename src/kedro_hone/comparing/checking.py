"""Check one artifact: the saved files, opened in a new process, at several batch sizes.

Silent wrong results are the reason (a quantized network that is right at one batch size and wrong at another, a
package that returns the wrong number of rows): so every candidate predicts the whole search split at every shape of the
recipe, and at an odd size where it takes any, and the worst of them counts.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.comparing.scoring import predict, score_predictions
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.toolchain import Licence
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Quality, Status, Validation
from kedro_hone.core.values.outcome import Candidate, Failed, FailureClass
from kedro_hone.core.values.samples import SEARCH, Reference

ODD_BATCH = 7
"""A size that no recipe names: what was specialized by mistake shows at it."""


def record_failure(named: Candidate, failed: Failed) -> Validation:
    """Return the validation of a candidate that failed on its way."""
    reason = f"{failed.by}: {failed.reason}"
    return Validation(candidate=named, status=Status.FAILED, slug=failed.failure, reason=reason)


def check_artifact(named: Candidate, artifact: Artifact, reference: Reference, setting: Setting) -> Validation:
    """Compare the outputs of a candidate's artifact, and their score, with the source's."""
    outputs, split = setting.store.locate_tree(reference.digest) / reference.outputs, setting.samples.splits[SEARCH]
    batches = {shape.name: shape.batch for shape in setting.recipe.all_shapes}
    if not artifact.static_shapes:
        batches[f"batch {ODD_BATCH}"] = ODD_BATCH
    failed = partial(Validation, candidate=named, status=Status.FAILED)
    with setting.store.workspace() as scratch:
        sizes = {scratch / f"{batch}.npz": batch for batch in batches.values()}
        predicted = predict(artifact, name=named.id, split=split, outputs=sizes, setting=setting)
        if isinstance(predicted, Failed):
            return record_failure(named, predicted)
        predictions = {name: scratch / f"{batch}.npz" for name, batch in batches.items()}
        error = _compare(predictions, outputs)
        if not isinstance(error, float):
            return failed(slug=error[0], reason=error[1])
        scores = score_predictions(predictions, reference=outputs, split=split, setting=setting)
    for reason in scores.values():
        if isinstance(reason, str):
            return failed(slug=FailureClass.BAD_OUTPUT, reason=reason)
    judged = {name: found for name, found in scores.items() if isinstance(found, Quality)}
    where, worst = max(judged.items(), key=lambda item: item[1].drop.estimate)
    limit = setting.recipe.gates.drop
    lost = worst.drop.low > limit
    loss = (
        f"{worst.metric} on the search split fell from {worst.source:.4f} to {worst.candidate:.4f} at {where}; "
        f"the recipe allows {limit:g}"
    )
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    return Validation(
        candidate=named,
        status=Status.DROPPED if lost else Status.MEASURED,
        slug="quality" if lost else "",
        reason=loss if lost else "",
        quality=worst.model_copy(update={"id": named.id}),
        largest_error=error,
        size_bytes=setting.store.measure(artifact),
        publishable=toolchain.licence is not Licence.EVALUATION,
        note=toolchain.note,
        **predicted.model_dump(),
    )


def _compare(predictions: dict[str, Path], reference: Path) -> tuple[FailureClass, str] | float:
    """Return the largest error of all predictions, or the first fault of names, shapes, types or values."""
    largest_error = 0.0
    with np.load(reference, allow_pickle=False) as expected:
        for where, path in predictions.items():
            with np.load(path, allow_pickle=False) as found:
                for name in expected.files:
                    if fault := _find_fault(expected[name], found.get(name)):
                        return fault[0], f"output {name!r} at {where}: {fault[1]}"
                    if expected[name].dtype.kind == "U":
                        continue  # text has no distance; the program's metric judges it
                    want, got = (archive[name].astype(np.float64) for archive in (expected, found))
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
