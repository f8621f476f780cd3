"""Trials: the batch sizes and shapes at which a validation compares a candidate with the source, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Quality
from hone_runtime.values.outcome import FailureClass
from hone_runtime.values.samples import SEARCH, Reference, Split
from kedro_hone.search.comparison.agreement import Difference, Fault, compare_outputs
from kedro_hone.search.comparison.answers import Answers
from kedro_hone.search.comparison.crops import ODD, ODD_BATCH, find_batch, has_fixed_batch
from kedro_hone.search.context import RunContext, explain_outdated
from kedro_hone.search.scores import has_labels, score_predictions
from kedro_hone.search.validation.probe_outputs import Found


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One batch size, or one shape that cuts the rows, to compare a candidate with the source.

    Attributes:
        where: Its name, for people.
        batch: The batch size.
        feeds: The rows.
        path: The candidate's outputs.
        reference: The source's outputs.
    """

    where: str
    batch: int
    feeds: Path
    path: Path
    reference: Path


def plan_trials(
    artifact: Artifact, reference: Reference, rows: dict[str, Path], context: RunContext, *, folder: Path
) -> list[Trial]:
    """Return the batch sizes of the recipe, and an odd one, on the uncut rows; then the shapes that cut them.

    A candidate that was compiled for the shapes takes uncut rows only in the batches of shapes that do not cut them.

    Args:
        artifact: The candidate's.
        reference: The source's outputs.
        rows: The cut rows, by shape.
        context: The context of the run.
        folder: Where the candidate's outputs will be written.

    Raises:
        HoneError: ``value-outdated``: the reference has other shapes than the recipe.
    """
    if rows.keys() != reference.cropped.keys():
        raise explain_outdated("reference", "version of kedro-hone")
    tree = context.store.locate_tree(reference.digest)
    batches = {shape.name: shape.batch for shape in context.recipe.all_shapes}
    if artifact.static_shapes:
        batches = {name: batch for name, batch in batches.items() if name not in rows} or batches
    if not artifact.static_shapes and not has_fixed_batch(context.source):
        batches[f"batch {ODD_BATCH}"] = ODD_BATCH
    feeds = context.locate(context.samples.splits[SEARCH].feeds)
    whole = partial(Trial, feeds=feeds, reference=tree / reference.outputs)
    trials = [whole(where=where, batch=batch, path=folder / f"{batch}.npz") for where, batch in batches.items()]
    for shape, feeds in rows.items():
        if shape == ODD and artifact.static_shapes:
            continue
        sizes = sorted(context.recipe.sizes.get(shape, {}).items())
        named = ", ".join(f"{dim} {size}" for dim, size in sizes if dim != "batch")
        where = f"{shape} ({named})" if named else shape
        path, expected = folder / f"at-{shape}.npz", tree / reference.cropped[shape]
        trials.append(Trial(where=where, batch=find_batch(context, shape), feeds=feeds, path=path, reference=expected))
    return trials


def score_trials(trials: list[Trial], split: Split, context: RunContext) -> dict[str, Quality] | str:
    """Score the trials on whole rows; without labels, which belong to whole rows, also those on cut rows.

    Without labels, the score is the similarity of the outputs to the source's, which is defined for any rows. If a
    trial cannot be scored, the reason is returned.
    """
    labelled = has_labels(split, context)
    groups: dict[Path, dict[str, Path]] = {}
    for trial in trials:
        if trial.feeds == context.locate(split.feeds) or not labelled:
            groups.setdefault(trial.reference, {})[trial.where] = trial.path
    scores: dict[str, Quality] = {}
    for reference, outputs in groups.items():
        for where, found in score_predictions(outputs, reference=reference, split=split, context=context).items():
            if isinstance(found, str):
                return found
            scores[where] = found
    return scores


def compare_trials(
    trials: Sequence[Trial], compare: Callable[[Trial], list[Difference] | Fault]
) -> Found | tuple[FailureClass, str]:
    """Compare the outputs of all trials with the source's, or return the class of the first fault, and its reason."""
    found: dict[str, list[Difference]] = {}
    for trial in trials:
        compared = compare(trial)
        if isinstance(compared, Fault):
            return compared.failure, compared.explain(trial.where)
        found[trial.where] = compared
    return found


def compare_trial(
    trial: Trial, *, artifact: Artifact, noise: Path | None, answers: Mapping[str, Answers] = MappingProxyType({})
) -> list[Difference] | Fault:
    """Compare the outputs of one trial with the source's, as in ``compare_outputs``."""
    return compare_outputs(
        trial.path,
        reference=trial.reference,
        feeds=trial.feeds,
        outputs=artifact.outputs,
        answers=answers,
        noise=noise,
    )
