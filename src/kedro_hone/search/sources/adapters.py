"""Merges an adapter of PEFT and its base model into the source model."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.job import JobInput
from hone_runtime.contract.registries import find_registry
from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.outcome import Failed, Refused
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.environments import require_environments
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.sources.jobs import call_toolchain, explain_failure
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats import transformers
from kedro_hone.sources.huggingface import adapters
from kedro_hone.sources.source_format import Flavor, Pulled

logger = open_logger(__name__)

_FORMAT = "transformers"


def merge_adapter(pulled: Pulled, recipe: Recipe, run: RunFolder, scratch: Path) -> tuple[Path, str]:
    """Pull the base model in the recipe, and merge the adapter into it in a worker.

    Returns the merged folder, and the base model's pinned URI. The folder has the layout of ``save_pretrained``, with
    the tokenizer of the adapter, or otherwise of the base model.

    Raises:
        HoneError: ``recipe-invalid``: the pulled model is not an adapter, or the base is not a model of Transformers.
            ``model-unsupported``: they cannot be merged. ``source-failed`` or ``model-corrupt``: the worker failed.
            Also the errors of pulling the base model.
    """
    place = adapters.find_adapter(pulled)
    if place is None:
        raise HoneError(
            "recipe-invalid",
            "The recipe names a base model, and the model is not an adapter.",
            why=f"hone.model.base is {recipe.model.base!r}, and {recipe.model.uri} has no {adapters.CONFIG}.",
            hint="Leave hone.model.base out.",
        )
    adapters.check_weights(place)
    base, flavor, uri = _pull_base(recipe, run, scratch)
    job = scratch / "merging"
    transformers.write(flavor, base, job)
    adapters.copy_adapter(place, job / adapters.FOLDER, root=pulled.folder)
    merged = scratch / "merged"
    _call(job, merged, flavor, recipe, run)
    adapters.copy_texts(job, merged, root=scratch)
    for folder in (*sorted((pulled.folder / "components").glob("*")), place):  # where MLflow stores a tokenizer
        adapters.copy_texts(folder, merged, root=pulled.folder)
    return merged, uri


def _pull_base(recipe: Recipe, run: RunFolder, scratch: Path) -> tuple[Path, Flavor, str]:
    uri, folder = str(recipe.model.base), scratch / "base"
    registry = find_registry(uri, project=run.project)
    folder.mkdir()
    version = registry.pull(registry.find_source(uri), folder)
    flavor = read_flavor(folder, trust=recipe.trust)
    if flavor.format != _FORMAT:
        raise HoneError(
            "recipe-invalid",
            "The base model of an adapter is one of Transformers.",
            why=f"hone.model.base is {uri!r}, and holds a model of the format {flavor.format}.",
            hint=f"Name the model that {adapters.CONFIG} names.",
        )
    pinned = run.relate(version.uri)
    logger.info("merging   %s into %s", recipe.model.uri, pinned)
    return folder, flavor, pinned


def _call(folder: Path, merged: Path, flavor: Flavor, recipe: Recipe, run: RunFolder) -> None:
    toolchain = next(one for one in read_catalogue().toolchains.values() if _FORMAT in one.runs)
    require_environments(recipe, [toolchain])
    given = JobInput(path=str(folder), format=_FORMAT, metadata=flavor.metadata)
    result = call_toolchain("merge", given, toolchain, recipe=recipe, run=run, output=merged)
    what = f"{recipe.model.uri} cannot be merged into {recipe.model.base}."
    if isinstance(result, Failed):
        raise explain_failure(result, what, check="the files of both in their registries")
    if isinstance(result, Refused):
        raise HoneError(
            "model-unsupported",
            what,
            why=f"{result.reason.rstrip('.')}.",
            hint=f"Check that hone.model.base is the model that it was trained on. {adapters.ADVICE}",
        )
