"""The start of a run: everything that it needs is checked at once, and nothing is built."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kedro.io import CatalogProtocol

from hone_runtime.errors import HoneError, combine
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.samples import SPLITS, TRAINING, TrackedFile
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.datasets.defaults import check_names, read_defaults
from kedro_hone.datasets.ordinary import load_split
from kedro_hone.graph import find_root
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.pull import pull
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.comparison.ranges import check_ranges
from kedro_hone.search.preflight import collect_errors, find_problems
from kedro_hone.search.sources.batches import check_batch


def check_start(
    recipe: Recipe, catalog: CatalogProtocol[Any, Any], *, source: Artifact | None = None
) -> tuple[Artifact, Mapping[str, TrackedFile]]:
    """Check everything that a run of a recipe needs, and build nothing.

    The pulled model and the prepared data remain in the store, from which a run takes them.

    Args:
        recipe: The recipe of the run.
        catalog: Its catalog, with the defaults.
        source: The model, if it was pulled and sealed into this catalog's store already.

    Returns:
        The sealed source and the splits by name.

    Raises:
        HoneError: What is wrong; ``start-refused`` for several things.
    """
    root = find_root()
    check_names(catalog, read_defaults())
    store: Store = catalog.load("store")
    run = RunFolder(root=root / "data" / "hone" / "checks", run_id="last", project=root)
    files: dict[str, TrackedFile] = {}

    def load(name: str) -> None:
        files[name] = load_split(catalog, name, project=root)

    names = (*SPLITS, TRAINING) if make_plan(recipe).trains else SPLITS
    problems = [*collect_errors(partial(load, name) for name in names)]
    problems += find_problems(gate=files.get("gate"), recipe=recipe, store=store, run=run)
    pulled = {error.slug for error in problems}.isdisjoint({"model-unknown", "registry-missing", "registry-unknown"})
    if source is not None:
        problems += collect_errors([partial(check_batch, source, recipe)])
        problems += collect_errors([partial(check_ranges, source.inputs, recipe.model.ranges)])
    elif pulled:
        source = _pull(recipe, store, run, problems)
    if source is not None and len(files) == len(names):
        problems += collect_errors([lambda: prepare(source, recipe, store, run, **files)])
    if problems:
        raise combine(problems)
    assert source is not None  # noqa: S101 - otherwise there was a problem
    return source, files


def _pull(recipe: Recipe, store: Store, run: RunFolder, problems: list[HoneError]) -> Artifact | None:
    """Return the sealed source; None if it cannot be pulled, which is added to the problems."""
    found: list[Artifact] = []
    problems += collect_errors([lambda: found.append(pull(recipe, store, run)[1])])
    return found[0] if found else None
