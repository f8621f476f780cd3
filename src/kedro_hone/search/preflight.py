"""Checks before the model is pulled: the source, the target of publishing, the program, the metric, the gate split."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import check_names
from hone_runtime.contract.target import Target, check_proposals, find_name, find_target
from hone_runtime.errors import HoneError
from hone_runtime.signing.sign import find_signer
from hone_runtime.text import open_logger
from hone_runtime.values.base import Json, Value
from hone_runtime.values.digest import digest_json
from hone_runtime.values.samples import Score, TrackedFile
from hone_runtime.values.slices import SliceRows
from kedro_hone.core.stats.balanced import smallest_provable_balanced_drop
from kedro_hone.core.stats.intervals import UNITS, needed_rows, smallest_provable_drop
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.programs import call_program, digest_metric, digest_programs, find_program
from kedro_hone.programs.shared.positive import BALANCED, count_units, depends_on_classes
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.scores import has_nothing_to_lose, may_lose_one
from kedro_hone.search.slices import check_slices, round_up
from kedro_hone.serving.forms import check_place, find_place
from kedro_hone.serving.image.leaks import read_private, refuse_leaks

logger = open_logger(__name__)

VERSION = 4
"""Increased if a check's result may differ; part of its key in the store."""


_BY_ROWS: Final = frozenset({"accuracy", BALANCED})
"""Metrics of rows that are right or wrong, whatever the program."""


class _Slice(SliceRows):
    classes: tuple[int, ...] = ()


class _Checked(Value):
    metric: str
    rows: int | None
    classes: tuple[int, ...]
    slices: tuple[_Slice, ...] = ()


def find_problems(*, gate: TrackedFile | None, recipe: Recipe, store: Store, run: RunFolder) -> list[HoneError]:
    """Check the source, the target of publishing, the program, the metric, and the gate split, all of them.

    The registries are queried, and the signing key is tried. A worker opens the program and the data; nothing is
    pulled. The result of the worker is stored.

    Args:
        gate: The gate split; None if it cannot be read.
        recipe: The recipe.
        store: The store.
        run: The run, or one for a check alone.

    Returns:
        One error for each check that failed, in the order of a run: such as ``model-unknown``, ``registry-unknown``,
        ``program-unknown``, ``metric-unknown``, ``recipe-invalid``, ``program-failed``, ``data-unreadable``,
        ``image-push-failed``, ``image-base-unfit``, ``image-leaks``, ``gate-unprovable`` or ``signing-unusable``.
    """
    checks: tuple[Callable[[], object], ...] = (
        lambda: _check_source(recipe, run),
        lambda: _check_target(recipe, run),
        lambda: _check_image(recipe, run),
        *((lambda: _check_program(gate, recipe, store, run),) if gate is not None else ()),
    )
    return list(collect_errors(checks))


def collect_errors(checks: Iterable[Callable[[], object]]) -> Iterator[HoneError]:
    """Call checks one after another, and yield the errors for people that they raise."""
    for check in checks:
        try:
            check()
        except Exception as error:
            known = HoneError.find(error)
            if known is None:
                raise
            yield known


def _check_source(recipe: Recipe, run: RunFolder) -> None:
    uri = recipe.model.uri
    registry = find_registry(uri, project=run.project)
    registry.resolve(registry.find_source(uri))


def _check_target(recipe: Recipe, run: RunFolder) -> None:
    publish = recipe.publish
    if publish.enabled or recipe.gates.beat_published:
        target = find_target(recipe.model.uri, uri=publish.uri, name=publish.name, project=run.project)
        if recipe.gates.beat_published:
            _check_published(target, recipe)
    if publish.enabled:
        check_names(target.registry, name=target.name, alias=publish.alias)
        if publish.pull_request:
            check_proposals(target.registry)
        find_signer()


def _check_image(recipe: Recipe, run: RunFolder) -> None:
    place = find_place(recipe.publish.image, run.project) if recipe.publish.enabled else None
    if place is not None:
        check_place(place)
        # The evidence contains the recipe, and is attached to the image after hours of search.
        refuse_leaks({PurePosixPath("the recipe"): recipe.model_dump_json().encode()}, read_private(run.project))


def _check_program(gate: TrackedFile, recipe: Recipe, store: Store, run: RunFolder) -> None:
    asked = recipe.program
    program = find_program(asked.name, project=run.project)
    metric = digest_metric(asked.metric, project=run.project)
    others = {name: digest_metric(name, project=run.project) for name in recipe.gates.drops}
    inputs = [digest_programs(), program.digest, asked.model_dump(mode="json"), metric, gate.content, others]
    slices = recipe.gates.slices
    by = slices.by if slices is not None else None
    key = digest_json(["recipe-checks", VERSION, *inputs, by])
    found = store.read_value(key, _Checked.model_validate)
    if found is None:
        job: dict[str, Json] = {"program": program.path, "program_options": {**asked.options}, "gate": gate.path}
        job |= {"metric": asked.metric, "metrics": list(others), "slices": by}
        found = _Checked.model_validate(call_program("check", job=job, store=store, run=run))
        store.write_value(key, found.model_dump())
    if found.rows:  # without any rows, preparing the data explains the error
        check_provable(found.rows, recipe)
    limits = {asked.metric: (recipe.gates.drop, "drop")}
    limits |= {name: (limit, f"drops.{name}") for name, limit in recipe.gates.drops.items()}
    for name, (limit, key) in limits.items() if found.classes else ():
        if name and name.removeprefix("neg_") == BALANCED:
            _check_classes(found.classes, recipe, limit, key)
        elif name and depends_on_classes(name):
            counted = count_units(min(found.classes), len(found.classes))
            other = name if name in recipe.gates.drops else None
            check_provable(counted, recipe, other=other, of=" of the rarest class")
    if found.slices and (found.rows is not None or found.metric in _BY_ROWS):
        check_slices(found.slices, recipe, classes=[one.classes for one in found.slices])


def _check_classes(sizes: tuple[int, ...], recipe: Recipe, limit: float, key: str) -> None:
    """Refuse classes whose rows cannot prove the limit of the balanced accuracy even if nothing is lost."""
    finalists = recipe.confirm.finalists
    confidence = share_confidence(recipe.gates.confidence, finalists=finalists)
    if (least := smallest_provable_balanced_drop(sizes, confidence)) < limit:
        return
    raise HoneError(
        "gate-unprovable",
        f"{sum(sizes)} gate rows cannot prove a drop under {limit:g} of {BALANCED}, even if nothing is lost.",
        why=f"The rarest class has {min(sizes)} of them, and the interval still reaches {round_up(least)}.",
        hint=f"Use more rows of the rarest class, or set hone.gates.{key} above {round_up(least)}.",
    )


def _check_published(target: Target, recipe: Recipe) -> None:
    """Look up the published version that the winner must beat; raise before hours are spent if that fails."""
    name = find_name(target, recipe.model.uri)
    if target.registry.list_aliases(name) is None:
        raise HoneError(
            "recipe-invalid",
            "gates.beat_published cannot be judged.",
            why="The winner's registry has no aliases, so it is unknown which version is published.",
            hint="Remove hone.gates.beat_published, or publish to another registry by hone.publish.uri.",
        )


def check_provable(
    rows: int, recipe: Recipe, *, score: Score | None = None, other: str | None = None, of: str = ""
) -> None:
    """Refuse rows that cannot prove the limit even if nothing is lost; warn if they probably cannot.

    Args:
        rows: The number of rows of the gate split.
        recipe: Contains the limit of its metric.
        score: The source's score on the search split, with the metric's span, which is also used for the gate split.
            The span is at least 1 for a metric that is best at 1. None for rows that are right or wrong.
        other: The metric's name in ``gates.drops``, to check that limit instead.
        of: Which rows count, after the word rows; empty for all of them.

    Raises:
        HoneError: ``gate-unprovable``, with the number of rows needed.
    """
    gates, finalists = recipe.gates, recipe.confirm.finalists
    limit, key, suffix = (gates.drops[other], f"drops.{other}", f" of {other}") if other else (gates.drop, "drop", "")
    confidence = share_confidence(gates.confidence, finalists=finalists)
    by_rows = score is None or score.kind in {"proportion", "balanced"}
    least = 1 if by_rows else UNITS
    if score is not None:
        _check_score(score, rows, least, key=f"gates.{key}" if other else "program.metric")
    span = 1.0 if score is None else score.span
    if span is None or (possible := span * (share := smallest_provable_drop(rows, confidence))) < limit:
        return
    bound = round_up(possible)
    estimated = "" if span == 1 else f" by the metric's span on the search split, {span:.4g}"
    shared = f", shared by {finalists} finalists" if finalists > 1 else ""
    what = f"prove a drop under {limit:g}{suffix}, even if nothing is lost."
    why = f"With so few rows the interval still reaches {bound}{estimated} (confidence {gates.confidence:g}{shared})."
    needed = max(least, needed_rows(max(limit / span, sys.float_info.epsilon), confidence))
    hint = f"Use at least {needed} rows{of}, or set hone.gates.{key} above {bound}."
    certain = score is None or by_rows or may_lose_one(higher_is_better=score.higher_is_better, source=score.value)
    if certain and share >= limit:
        raise HoneError("gate-unprovable", f"{rows} gate rows{of} cannot {what}", why=why, hint=hint)
    logger.warning("warning   %d gate rows probably cannot %s %s %s", rows, what, why, hint)


def _check_score(score: Score, rows: int, least: int, *, key: str) -> None:
    if has_nothing_to_lose(score):
        raise HoneError(
            "gate-unprovable",
            f"The source's {score.metric} is 0 on the search split.",
            why="No candidate can be worse, so these rows prove nothing.",
            hint=f"Check that the labels are the model's, or take another metric: hone.{key}.",
        )
    if rows < least:
        raise HoneError(
            "gate-unprovable",
            f"{rows} gate rows are too few for an interval of {score.metric}, whatever the limit.",
            why=f"It needs {least} rows at least: it is computed from how they differ.",
            hint=f"Use a gate split of {least} rows or more; a few hundred are sensible.",
        )
