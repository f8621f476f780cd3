"""A version of a registry, pulled into the store as an artifact that can be measured."""

from __future__ import annotations

import os

from hone_runtime.contract.proof import EVIDENCE_FOLDER
from hone_runtime.contract.registry import UNASKED, Registry, VersionInfo
from hone_runtime.contract.tags import DIGEST, FILES
from hone_runtime.errors import HoneError
from hone_runtime.learner.versions import check_version_files
from hone_runtime.values.artifact import Artifact
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.sources.adapters import merge_adapter
from kedro_hone.search.sources.recognition import recognize
from kedro_hone.search.sources.sealed_files import seal
from kedro_hone.sources.catalogue import read_sources
from kedro_hone.sources.detection import open_pulled
from kedro_hone.sources.files import write_files


def fetch(uri: str, registry: Registry, recipe: Recipe, store: Store, run: RunFolder) -> tuple[VersionInfo, Artifact]:
    """Pull a version, and seal its files as an artifact with its author's runtime.

    No code from the registry is executed here; the worker that reads the model's specifications runs under the limits
    of its toolchain.

    Args:
        uri: The version, in a form that the registry resolves.
        registry: The registry of the URI.
        recipe: Contains the trusted names, and how to make the author's class.
        store: The store for the artifact.
        run: The run of the worker's steps.

    Raises:
        HoneError: The model, version or alias does not exist, the registry cannot be reached, or the files are not as
            expected. ``model-optimized``: an event started the run, and the model is a winner.
    """
    with store.workspace() as scratch:
        pulled, files = scratch / "pulled", scratch / "files"
        pulled.mkdir()
        version = registry.pull(uri, pulled)
        if os.environ.get(UNASKED) and (version.is_optimized or (pulled / EVIDENCE_FOLDER).is_dir()):
            raise HoneError(
                "model-optimized",
                f"{version.uri} is a winner of kedro-hone: no event optimizes it again.",
                why="It has the evidence of a run with it; its tags may have been lost when it was copied.",
                hint="Start the run yourself if it is intended, or by the form on the service's page.",
            )
        place, due = pulled, version.tags.get(DIGEST)
        if recipe.model.base is not None:
            place, base = merge_adapter(open_pulled(pulled), recipe, run, scratch)
            version, due = version.model_copy(update={"base": base}), None
        flavor = recognize(place, recipe, run, version=version, due=due, signed=pulled)
        check_version_files(pulled, due=version.tags.get(FILES))
        (read_sources()[0][flavor.source][0].write or write_files)(flavor, place, files)
        return version, seal(files, flavor, recipe, store, run)
