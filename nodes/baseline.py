"""The baseline: what the source model predicts, and how good that is. Everything else is compared with it."""

from __future__ import annotations

from pathlib import Path

from kedro_hone.building.runtimes import identify_runtime
from kedro_hone.comparing.cropping import crop_search, find_batch
from kedro_hone.comparing.recipe_checks import check_provable
from kedro_hone.comparing.scoring import find_span, may_lose_one, predict, score_source
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.errors import HoneError
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.measurement import Quality
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.values.samples import GATE, SEARCH, Reference
from kedro_hone.programs import digest_metric, digest_programs

logger = open_logger(__name__)

VERSION = 9
"""Increase it when the code would compute another reference; it is part of the reference's key in the store."""


def take_baseline(*, setting: Setting) -> Reference:
    """Run the source model on the search split, and score its outputs: what every candidate is compared with.

    It is run on the same rows once more for each shape that cuts them, and a model of Transformers at odd sizes; those
    outputs are kept, and not scored.

    Raises:
        HoneError: ``model-unsupported`` when the source cannot be run; ``labels-mismatch``; ``gate-unprovable`` when
            the source is right in no row, or the gate split is too small for the recipe's limit, before anything is
            built.
    """
    source, samples, recipe, store = setting.source, setting.samples, setting.recipe, setting.store
    asked = [source.digest, samples.digest, recipe.thread_count, recipe.program.model_dump(mode="json")]
    if recipe.gates.drops:  # which are checked where the reference is made
        asked.append([recipe.gates.drops, recipe.gates.confidence, recipe.confirm.finalists])
    code = [digest_metric(recipe.program.metric, project=setting.run.project), digest_programs()]
    key = digest_json(["reference", VERSION, *asked, *code, *identify_runtime(source, recipe)])
    reference = store.read_value(key, Reference.model_validate)
    if reference is None or store.find_tree(key) is None:
        reference = _make_reference(key, setting)
        store.write_value(key, reference.model_dump(mode="json"))
    reference = reference.model_copy(update={"since": setting.run.run_id})
    if reference.doubt:
        logger.warning("warning   %s (%s): %s", SEARCH, Path(samples.splits[SEARCH].path).name, reference.doubt)
    _check_gate(reference, setting)
    return reference


def _check_gate(reference: Reference, setting: Setting) -> None:
    """Refuse a gate that cannot be proved; where the program counts its rows, that was checked before the pull, too."""
    if reference.kind == "proportion" and reference.higher_is_better and reference.value == 0:
        raise HoneError(
            "gate-unprovable",
            "The source is right in no row of the search split.",
            why=f"Its {reference.metric} is 0: no candidate could be worse, so the gate would prove nothing.",
            hint="Check that the labels are the model's, or take another metric: hone.program.metric.",
        )
    _check_span(reference.span, reference, setting)


def _check_span(span: float | None, scored: Reference | Quality, setting: Setting, *, other: str | None = None) -> None:
    """Refuse too few gate rows, given the most that one row of the search split may lose, if that is known.

    That is an estimate for the gate split, of which the half is taken for certain; 1 is where a metric is best at 1.
    """
    if span is None:
        return
    source = scored.value if isinstance(scored, Reference) else scored.source
    one = 1.0 if may_lose_one(higher_is_better=scored.higher_is_better, source=source) else 0.0
    rows = setting.samples.splits[GATE].n
    check_provable(rows, setting.recipe, other=other, span=span, certain=max(span / 2, one))


def _make_reference(key: str, setting: Setting) -> Reference:
    split = setting.samples.splits[SEARCH]
    with setting.store.workspace() as scratch, crop_search(setting) as rows:
        cropped = {shape: f"at-{shape}.npz" for shape in rows}
        runs = [(setting.locate(split.feeds), scratch / "outputs.npz", setting.largest_batch)]
        runs += [(rows[at], scratch / name, find_batch(setting, at)) for at, name in cropped.items()]
        predicted = predict(setting.source, name="source", runs=runs, setting=setting)
        if isinstance(predicted, Failed):
            raise HoneError(
                "model-unsupported",
                "The source model does not run on the search split.",
                why=predicted.reason,
                hint=f"Read {predicted.log or 'the log of the step'}; the inputs must be what the model takes.",
            )
        kept = setting.store.keep_tree(key, scratch) / "outputs.npz"
    itself = score_source(kept, split, setting)
    for other in itself.others:
        _check_span(find_span(other), other, setting, other=other.metric)
    return Reference(
        outputs=kept.name,
        cropped=cropped,
        digest=key,
        value=itself.source,
        run=setting.run.run_id,
        span=find_span(itself),
        **itself.model_dump(include={"metric", "kind", "n", "higher_is_better", "doubt"}),
        **dict(predicted),
    )
