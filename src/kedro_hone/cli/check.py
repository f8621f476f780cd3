"""``kedro hone check``: everything that a run needs, looked at once, without building anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import click
from kedro.io import CatalogProtocol

from hone_runtime.errors import HoneError, combine
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import SPLITS, TrackedFile
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.datasets.ordinary import load_split
from kedro_hone.graph import configure, find_root, read_catalog, read_parameters
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.pull import pull
from kedro_hone.recipe.environments import find_environment
from kedro_hone.recipe.plan import make_plan, reach_toolchains
from kedro_hone.recipe.schema import Recipe, read_recipe
from kedro_hone.search.preflight import collect_errors, find_problems


@click.command()
@click.option("--env", "-e", help="Kedro's environment of the recipe.")
def check(*, env: str | None) -> None:
    """Check everything that a run of this recipe needs, and build nothing.

    The registries, the rights, the signature, what is trusted, the program, the columns and the rows are checked: the
    model is pulled and the data are prepared as a run does it. Exit code 3: something must be corrected.
    """
    if env is not None:
        os.environ["KEDRO_ENV"] = env
    configure()
    recipe, catalog = read_recipe(read_parameters()), read_catalog()
    source, files = check_start(recipe, catalog)
    for line in _describe(recipe, source, files):
        click.echo(line)


def check_start(recipe: Recipe, catalog: CatalogProtocol[Any, Any]) -> tuple[Artifact, Mapping[str, TrackedFile]]:
    """Check everything that a run of a recipe needs, and build nothing.

    The pulled model and the prepared data remain in the store, from which a run takes them.

    Returns:
        The sealed source and the splits by name.

    Raises:
        HoneError: What is wrong; ``start-refused`` for several things.
    """
    root = find_root()
    store: Store = catalog.load("store")
    run = RunFolder(root=root / "data" / "hone" / "checks", run_id="last", project=root)
    files: dict[str, TrackedFile] = {}

    def load(name: str) -> None:
        files[name] = load_split(catalog, name, project=root)

    problems = [*collect_errors(partial(load, name) for name in SPLITS)]
    problems += find_problems(gate=files.get("gate"), recipe=recipe, store=store, run=run)
    pulled = {error.slug for error in problems}.isdisjoint({"model-unknown", "registry-missing", "registry-unknown"})
    source = _pull(recipe, store, run, problems) if pulled else None
    if source is not None and len(files) == len(SPLITS):
        problems += collect_errors([lambda: prepare(source, recipe, store, run, **files)])
    if problems:
        raise combine(problems)
    assert source is not None  # noqa: S101 - otherwise there was a problem
    return source, files


def _describe(recipe: Recipe, source: Artifact, files: Mapping[str, TrackedFile]) -> Iterator[str]:
    """Yield a line for each thing that is as it should be."""
    yield f"model        {recipe.model.uri}, {source.format}"
    yield f"data         {', '.join(f'{name} {files[name].source}' for name in SPLITS)}"
    yield f"program      {recipe.program.name}, with a drop of at most {recipe.gates.drop:g}"
    yield f"publishing   {'to the registry' if recipe.publish.enabled else 'off'}"
    yield from _list_environments(recipe, source)


def _pull(recipe: Recipe, store: Store, run: RunFolder, problems: list[HoneError]) -> Artifact | None:
    """Return the sealed source; None if it cannot be pulled, which is added to the problems."""
    found: list[Artifact] = []
    problems += collect_errors([lambda: found.append(pull(recipe, store, run)[1])])
    return found[0] if found else None


def _list_environments(recipe: Recipe, source: Artifact) -> Iterator[str]:
    """Yield a line for each toolchain of the recipe's routes: whether its environment is there."""
    for toolchain in reach_toolchains(make_plan(recipe), source.format):
        found = find_environment(recipe, toolchain, build=False)
        builds = recipe.missing_toolchains == "build"
        absent = "will be built, in some minutes" if builds else "absent: its candidates are left out"
        state = absent if isinstance(found, Failed) else "ready"
        yield f"environment  {toolchain.name}: {state}"
