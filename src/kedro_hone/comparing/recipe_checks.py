"""What is checked before the model is pulled: where the winner goes, the program, the metric, and the gate split."""

from __future__ import annotations

from typing import cast

from kedro_hone.core.contract.aliases import AliasRegistry, find_published, has_aliases
from kedro_hone.core.contract.registry import check_names
from kedro_hone.core.contract.target import Target, find_target, find_writer
from kedro_hone.core.errors import HoneError
from kedro_hone.core.stats.intervals import needed_rows, smallest_provable_drop
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.samples import TrackedFile
from kedro_hone.programs import call_program, digest_metric, digest_programs, find_program
from kedro_hone.recipe.schema import Recipe
from kedro_hone.signing.sign import find_signer

logger = open_logger(__name__)

VERSION = 1
"""Raised when a check would come out differently; part of its key in the store."""


class _Checked(Value):
    rows: int | None


def check_recipe(*, gate: TrackedFile, recipe: Recipe, store: Store, run: RunFolder) -> None:
    """Check where the winner goes, the program, the metric, and whether the gate split can prove the recipe's limit.

    The registry is asked that the winner goes to, and the key that signs is tried. A worker
    opens the program and the data; the model is not needed. What was found is remembered in the store.

    Raises:
        HoneError: ``program-unknown``, ``metric-unknown``, ``recipe-invalid`` (an unknown option of the program, or
            a name that the registry refuses), ``registry-unknown``, ``registry-broken``, ``program-failed``,
            ``data-unreadable``, ``gate-unprovable`` or ``signing-unusable``.
    """
    publish = recipe.publish
    if publish.enabled or recipe.gates.beat_published:
        target = find_target(recipe.model.uri, uri=publish.uri, name=publish.name, project=run.project)
        if recipe.gates.beat_published:
            _check_published(target, recipe)
    if publish.enabled:
        check_names(target.registry, name=target.name, alias=publish.alias)
        find_writer(target.registry, pull_request=publish.pull_request)
        find_signer()
    asked = recipe.program
    program = find_program(asked.name, project=run.project)
    metric = digest_metric(asked.metric, project=run.project)
    others = {name: digest_metric(name, project=run.project) for name in recipe.gates.drops}
    inputs = [digest_programs(), program.digest, asked.model_dump(mode="json"), metric, gate.md5, others]
    key = digest_json(["recipe-checks", VERSION, *inputs])
    found = store.read_value(key, _Checked.model_validate)
    if found is None:
        job: dict[str, Json] = {"program": program.path, "program_options": {**asked.options}, "gate": gate.path}
        job |= {"metric": asked.metric, "metrics": list(others)}
        found = _Checked.model_validate(call_program("check", job=job, store=store, run=run))
        store.write_value(key, found.model_dump())
    if found.rows:  # no rows at all are an error of the data, which preparing them explains
        check_provable(found.rows, recipe)


def _check_published(target: Target, recipe: Recipe) -> None:
    """Ask what is published, which the winner has to beat; raises where nobody can tell, before hours are spent."""
    if not has_aliases(target.registry):
        raise HoneError(
            "recipe-invalid",
            "gates.beat_published cannot be judged.",
            why="The registry that the winner goes to has no aliases, so nothing says which version is published.",
            hint="Remove gates.beat_published, or publish to another registry by publish.uri.",
        )
    name = target.name or target.registry.resolve(recipe.model.uri).name
    find_published(cast("AliasRegistry", target.registry), name, recipe.publish.alias)


def check_provable(
    rows: int, recipe: Recipe, *, other: str | None = None, span: float = 1.0, certain: float = 1.0
) -> None:
    """Refuse rows that cannot prove the limit even if nothing is lost; warn where they probably cannot.

    Args:
        rows: How many the gate split has.
        recipe: The limit is that of its metric.
        other: A metric in ``gates.drops`` whose limit is meant instead.
        span: The most that one row may lose, in the metric's unit: 1 where it is right or wrong; else an estimate, such
            as that of another split.
        certain: What one row may lose at least, whatever the split.

    Raises:
        HoneError: ``gate-unprovable``, with the rows that would be needed.
    """
    gates, finalists = recipe.gates, recipe.confirm.finalists
    limit, key, said = (gates.drops[other], f"drops.{other}", f" of {other}") if other else (gates.drop, "drop", "")
    confidence = share_confidence(gates.confidence, finalists=finalists)
    share = smallest_provable_drop(rows, confidence)
    if (possible := span * share) < limit:
        return
    loses = "" if span == 1 else f", where one may lose {span:.4g}"
    what = f"prove a drop under {limit:g}{said}, even if nothing is lost."
    why = (
        f"With so few rows{loses} the interval still reaches {possible:.4g} "
        f"(confidence {gates.confidence:g}, shared by {finalists} finalists)."
    )
    hint = f"Use at least {needed_rows(limit / span, confidence)} rows, or set hone.gates.{key} above {possible:.4g}."
    if certain * share < limit:
        logger.warning("warning   %d gate rows can hardly %s %s %s", rows, what, why, hint)
        return
    raise HoneError("gate-unprovable", f"{rows} gate rows cannot {what}", why=why, hint=hint)
