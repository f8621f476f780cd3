"""Pull the source model from its registry and seal it as an artifact."""

from __future__ import annotations

from typing import Final

from hone_runtime.contract.aliases import read_aliases
from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import Registry, VersionInfo
from hone_runtime.contract.target import find_name, find_target
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.plan import list_idle, make_plan
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.comparison.ranges import check_ranges
from kedro_hone.search.sources.batches import check_batch
from kedro_hone.search.sources.versions import fetch

logger = open_logger(__name__)

_IDLE: Final = (
    "warning   The toolchain %s takes part in no route: add the one that converts a model of the format %s for it, "
    "or that runs its result, to hone.toolchains."
)


def pull(recipe: Recipe, store: Store, run: RunFolder) -> tuple[VersionInfo, Artifact]:
    """Fetch the version that the recipe names, and seal its files as the source artifact.

    No code from the registry is executed here; the worker that reads the model's specifications runs under the limits
    of its toolchain. Returns the version with its URI pinned, and the artifact with its author's runtime.

    Raises:
        HoneError: The model, version or alias does not exist, the registry cannot be reached, or the files are not as
            expected. ``recipe-invalid``: a shape of the recipe has another batch than the model takes, or a range does
            not fit an input.
    """
    registry = find_registry(recipe.model.uri, project=run.project)
    # First: an alias that is moved while a large model is copied then counts as moved.
    pointers = _read_pointers(recipe, registry, run)
    version, artifact = fetch(registry.find_source(recipe.model.uri), registry, recipe, store, run)
    check_batch(artifact, recipe)
    check_ranges(artifact.inputs, recipe.model.ranges)
    for name in list_idle(recipe, make_plan(recipe), artifact.format):
        logger.warning(_IDLE, name, artifact.format)
    known = {"uri": run.relate(version.uri), "pointers": pointers, "pulled": run.run_id}
    version = version.model_copy(update=known)
    logger.info("pulled    %s (%s, %s)", version.uri, artifact.format, artifact.digest[:19])
    return version, artifact


def _read_pointers(recipe: Recipe, registry: Registry, run: RunFolder) -> dict[str, dict[str, str]]:
    """Return the targets of the aliases of the model to publish to; empty if nothing is published."""
    publish = recipe.publish
    if publish.uri is not None and not publish.enabled:
        return {}
    target = find_target(recipe.model.uri, uri=publish.uri, name=publish.name, project=run.project)
    if target.name is None and not publish.enabled and not registry.resolve(recipe.model.uri).name:
        return {}
    return read_aliases(target.registry, find_name(target, recipe.model.uri))
