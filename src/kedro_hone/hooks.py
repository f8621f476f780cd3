"""The hooks that tie a Kedro run to its recipe."""

from __future__ import annotations

from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl

from kedro_hone.graph import find_parameters, set_parameters
from kedro_hone.logs import configure_logging
from kedro_hone.recipe import read_recipe


class RecipeHooks:
    """Checks the recipe before anything starts, and generates the pipelines from it."""

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Read the run's parameters.

        ``context.params`` would do it too, but it registers the pipelines first, with the wrong recipe.

        Args:
            context: The run's context, with ``--params`` and ``--env`` merged in.
        """
        configure_logging()
        parameters = find_parameters(context.config_loader)
        if parameters is not None:
            read_recipe(parameters)
            set_parameters(parameters)
