"""The hooks that connect a Kedro run with its recipe."""

from __future__ import annotations

from typing import Any

from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

from kedro_hone.comparing.recipe_checks import check_recipe
from kedro_hone.core.values.samples import GATE
from kedro_hone.graph import find_parameters, set_parameters
from kedro_hone.hooks.logs import configure_logging
from kedro_hone.programs import digest_metric, find_program
from kedro_hone.recipe.schema import read_recipe

_NEEDED = ("params:hone", "store", "run", GATE)


class RecipeHooks:
    """Checks the recipe before anything starts, and generates the pipelines from it."""

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Read the run's parameters, with ``--params`` and ``--env``, and look for the files that they name."""
        configure_logging(context.project_path)
        # ``context.params`` would read them too, but it registers the pipelines first, with the wrong recipe.
        parameters = find_parameters(context.config_loader)
        if parameters is not None:
            program = read_recipe(parameters).program
            find_program(program.name, project=context.project_path)
            digest_metric(program.metric, project=context.project_path)
            set_parameters(parameters)

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]) -> None:
        """Check the program, the metric and the gate split as far as possible before the model is pulled."""
        if pipeline.inputs().issuperset(_NEEDED):
            recipe, store, run, gate = (catalog.load(name) for name in _NEEDED)
            check_recipe(gate=gate, recipe=recipe, store=store, run=run)
