"""The baseline: the predictions of the source model and their score. All candidates are compared with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.digest import digest_json
from hone_runtime.values.measurement import Quality
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import GATE, SEARCH, TRAINING, Reference, Score
from kedro_hone.programs import digest_metric, digest_programs
from kedro_hone.search.comparison.crops import crop_search, find_batch
from kedro_hone.search.context import RunContext
from kedro_hone.search.preflight import check_provable
from kedro_hone.search.scores import Run, find_slices, predict, score_source
from kedro_hone.search.slices import check_slices
from kedro_hone.search.stability.faults import check_source, check_trials_rows
from kedro_hone.search.stability.trials import plan_trials
from kedro_hone.search.steps.runtimes import identify_runtime
from kedro_hone.search.training import list_runs
from kedro_hone.search.validation.probe_runs import SourceProbing

logger = open_logger(__name__)

VERSION = 20
"""Increase it if the code computes a different reference; it is part of the reference's key in the store."""


_NOISE: Final = "noise.npz"
"""The file in the reference's tree with, by output, which numbers of a row have the rounding error of larger ones."""
_TRAINING_OUTPUTS: Final = "training.npz"
"""The file with the source's outputs on the training split."""


def take_baseline(*, context: RunContext) -> Reference:
    """Run the source model on the search split, and score its outputs as the reference for all candidates.

    It is run on the same rows again for each shape that cuts them, and a model of Transformers at odd sizes; those
    outputs are stored but not scored. So are its outputs on the training split, if an adaptor is trained. Some rows
    are run again, in other batches and alone: the output must be a function of each row.

    Raises:
        HoneError: ``model-unsupported``: the source cannot be run. ``labels-mismatch``. ``gate-unprovable``: a metric
            proves nothing, or the gate split is too small for the recipe's limit; raised before anything is built.
            ``source-random``, ``source-stateful``, ``source-mixes-rows``, ``source-not-rowwise`` or
            ``source-not-finite``.
    """
    source, samples, recipe, store = context.source, context.samples, context.recipe, context.store
    parts = [source.digest, samples.digest, recipe.thread_count, recipe.seed, recipe.program.model_dump(mode="json")]
    if recipe.model.ranges:
        parts.append([[name, *ends] for name, ends in sorted(recipe.model.ranges.items())])
    if recipe.gates.drops:
        parts.append([[name, digest_metric(name, project=context.run.project)] for name in recipe.gates.drops])
    code = [digest_metric(recipe.program.metric, project=context.run.project), digest_programs()]
    key = digest_json(["reference", VERSION, *parts, *code, *identify_runtime(source, recipe)])
    reference = store.read_value(key, Reference.model_validate)
    if reference is None or store.find_tree(key) is None:
        reference = _make_reference(key, context)
        store.write_value(key, reference.model_dump(mode="json"))
    reference = reference.model_copy(update={"since": context.run.run_id})
    for warning in filter(None, (reference.doubt, *reference.warnings)):
        logger.warning("warning   %s (%s): %s", SEARCH, Path(samples.splits[SEARCH].path).name, warning)
    for name, score in ((None, reference), *zip(recipe.gates.drops, reference.others, strict=True)):
        check_provable(samples.splits[GATE].n, recipe, score=score, other=name)
    if (slices := find_slices(context)) is not None:
        check_slices(slices.sizes, recipe, score=reference)
    return reference


def _make_reference(key: str, context: RunContext) -> Reference:
    split = context.samples.splits[SEARCH]
    trials_folder = "trials"
    with context.store.workspace() as scratch, crop_search(context) as rows:
        cropped = {shape: f"at-{shape}.npz" for shape in rows}
        runs = [(context.locate(split.feeds), scratch / "outputs.npz", context.largest_batch)]
        runs += [(rows[at], scratch / name, find_batch(context, at)) for at, name in cropped.items()]
        (scratch / trials_folder).mkdir()
        trials = plan_trials(context, runs[0][0], scratch / trials_folder)
        first = [trial.run for trial in trials.first]
        probing = SourceProbing(context, scratch)
        more = _plan_training(context, runs[0][1])
        predicted = predict(
            context.source, name="source", runs=runs, context=context, trials=first, after=probing.run, **more
        )
        check_trials_rows(trials.first, context)
        if isinstance(predicted, Failed):
            raise HoneError(
                "model-unsupported",
                "The source model does not run on the search split.",
                why=predicted.reason,
                hint=f"Read {predicted.log or 'the log of the step'}; the inputs must be what the model takes.",
            )
        warnings, noise = check_source(trials, runs[0], context)
        np.savez(scratch / _NOISE, allow_pickle=False, **noise)
        shutil.rmtree(scratch / trials_folder)
        kept = context.store.store_tree(key, scratch) / "outputs.npz"
    itself = score_source(kept, split, context)
    return Reference(
        outputs=kept.name,
        cropped=cropped,
        noise=_NOISE,
        training=_TRAINING_OUTPUTS if TRAINING in context.samples.splits else "",
        digest=key,
        run=context.run.run_id,
        doubt=itself.doubt,
        warnings=warnings,
        others=tuple(Score(**_read_score(other)) for other in itself.others),
        probes=tuple(probing.kept),
        **_read_score(itself),
        **dict(predicted),
    )


def _plan_training(context: RunContext, outputs: Path) -> dict[str, Any]:
    """Return the arguments of ``predict`` for the training split; ``outputs`` will be those on the search split."""
    split = context.samples.splits.get(TRAINING)
    if split is None:
        return {}
    rows, searched = context.locate(split.feeds), context.samples.splits[SEARCH].n

    def make() -> Iterator[Run]:
        size = outputs.stat().st_size / searched  # known now
        file = outputs.with_name(_TRAINING_OUTPUTS)
        yield from list_runs(rows, file, count=split.n, batch=context.largest_batch, row_bytes=size)

    return {"reads": (rows,), "later": make()}


def _read_score(quality: Quality) -> dict[str, Any]:
    fields = quality.model_dump(include={"metric", "kind", "n", "higher_is_better", "span"})
    return {"value": quality.source, **fields}
