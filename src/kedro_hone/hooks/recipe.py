"""The hooks that connect a Kedro run with its recipe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml
from kedro.config import MissingConfigException
from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

from hone_runtime.errors import HoneError
from hone_runtime.values.samples import CALIBRATION, GATE, SEARCH, TRAINING
from kedro_hone.graph import find_parameters, set_parameters
from kedro_hone.hooks.logs import configure_logging
from kedro_hone.programs import digest_metric, find_program
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.preflight import check_recipe

_ENTRIES = frozenset({"store", "run", CALIBRATION, SEARCH, GATE, TRAINING})
"""The entries that a user's own catalog must contain: no node makes them."""
_COPY = "Copy conf/base/catalog.yml of kedro-hone's own repository, and change the splits."
_NEEDED = ("params:hone", "store", "run", GATE)


class RecipeHooks:
    """Checks the recipe before anything starts, and generates the pipelines from it."""

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Read the run's parameters, with ``--params`` and ``--env``, and check that the files in them exist."""
        configure_logging(context.project_path)
        # ``context.params`` would also read them, but it first registers the pipelines with the wrong recipe.
        parameters = find_parameters(context.config_loader)
        if parameters is not None:
            program = read_recipe(parameters).program
            find_program(program.name, project=context.project_path)
            digest_metric(program.metric, project=context.project_path)
            set_parameters(parameters)
            _require_catalog(context)

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]) -> None:
        """Check the program, the metric and the gate split as far as possible before the model is pulled."""
        inputs = pipeline.inputs()
        if "store" in inputs:
            _check_catalog(sorted(_ENTRIES & inputs), catalog)
        if inputs.issuperset(_NEEDED):
            recipe, store, run, gate = (catalog.load(name) for name in _NEEDED)
            check_recipe(gate=gate, recipe=recipe, store=store, run=run)


def _require_catalog(context: KedroContext) -> None:
    """Raise ``catalog-incomplete`` if the project's configuration has no readable catalog."""
    try:
        context.config_loader["catalog"]
    except (MissingConfigException, yaml.YAMLError) as error:
        missing = isinstance(error, MissingConfigException)
        hint = _COPY if missing else "Correct the YAML there."
        what = "There is no catalog." if missing else "The catalog cannot be read."
        raise HoneError("catalog-incomplete", what, why=str(error), hint=hint) from error


def _check_catalog(names: Iterable[str], catalog: CatalogProtocol[Any, Any]) -> None:
    """Raise ``catalog-incomplete`` if the catalog lacks an entry that no node makes."""
    if missing := [name for name in names if name not in catalog]:
        raise HoneError(
            "catalog-incomplete",
            f"The catalog has no entry {missing[0]!r}.",
            why=f"Not in conf/*/catalog.yml: {', '.join(missing)}; the pipelines read them, and no node makes them.",
            hint=_COPY,
        )
