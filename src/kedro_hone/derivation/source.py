"""The source model of a request, pulled to see what it is before there is a recipe."""

from __future__ import annotations

from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import VersionInfo
from hone_runtime.values.artifact import Artifact
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.sources.versions import fetch


def pull_source(recipe: Recipe, store: Store, run: RunFolder) -> tuple[VersionInfo, Artifact]:
    """Pull and seal the model of a recipe, as the run does it later.

    Raises:
        HoneError: As ``fetch``.
    """
    uri = recipe.model.uri
    registry = find_registry(uri, project=run.project)
    return fetch(registry.find_source(uri), registry, recipe, store, run)
