"""``kedro hone check``: everything that a run needs, looked at once, without building anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import click

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import TrackedFile
from kedro_hone.graph import configure, read_catalog, read_parameters
from kedro_hone.recipe.environments import find_environment
from kedro_hone.recipe.plan import make_plan, reach_toolchains
from kedro_hone.recipe.schema import Recipe, read_recipe
from kedro_hone.runner.start import check_start


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


def _describe(recipe: Recipe, source: Artifact, files: Mapping[str, TrackedFile]) -> Iterator[str]:
    """Yield a line for each thing that is as it should be."""
    yield f"model        {recipe.model.uri}, {source.format}"
    yield f"data         {', '.join(f'{name} {file.source}' for name, file in files.items())}"
    yield f"program      {recipe.program.name}, with a drop of at most {recipe.gates.drop:g}"
    yield f"publishing   {'to the registry' if recipe.publish.enabled else 'off'}"
    yield from _list_environments(recipe, source)


def _list_environments(recipe: Recipe, source: Artifact) -> Iterator[str]:
    """Yield a line for each toolchain of the recipe's routes: whether its environment is there."""
    for toolchain in reach_toolchains(make_plan(recipe), source.format):
        found = find_environment(recipe, toolchain, build=False)
        builds = recipe.missing_toolchains == "build"
        absent = "will be built, in some minutes" if builds else "absent: its candidates are left out"
        state = absent if isinstance(found, Failed) else "ready"
        yield f"environment  {toolchain.name}: {state}"
