"""An adapter of PEFT and its base model, merged into the model that is the source."""

from __future__ import annotations

from pathlib import Path

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.registry import find_registry
from kedro_hone.core.contract.target import find_source
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.workers.host.job import Job, JobInput, StepResult
from kedro_hone.core.workers.host.run import call_worker
from kedro_hone.recipe.environments import find_environment, require_environments
from kedro_hone.recipe.schema import Recipe
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats import transformers
from kedro_hone.sources.huggingface import adapters
from kedro_hone.sources.source_format import Flavor, Pulled

logger = open_logger(__name__)

_FORMAT = "transformers"


def merge_adapter(pulled: Pulled, recipe: Recipe, run: RunFolder, scratch: Path) -> Path:
    """Pull the base model that the recipe names, merge the adapter into it in a worker, and return the merged folder.

    It is laid out as ``save_pretrained`` writes it, with the tokenizer of the adapter, or else of the base model.

    Raises:
        HoneError: ``recipe-invalid``: what was pulled is no adapter, or the base is no model of Transformers;
            ``model-unsupported``: they cannot be merged; and as pulling the base model raises.
    """
    place = adapters.find_adapter(pulled)
    if place is None:
        raise HoneError(
            "recipe-invalid",
            "The recipe names a base model, and the model is no adapter.",
            why=f"hone.model.base is {recipe.model.base!r}, and {recipe.model.uri} has no {adapters.CONFIG}.",
            hint="Leave hone.model.base out.",
        )
    adapters.check_weights(place)
    base, flavor = _pull_base(recipe, run, scratch)
    job = scratch / "merging"
    transformers.write(flavor, base, job)
    adapters.copy_adapter(place, job / adapters.FOLDER)
    merged = scratch / "merged"
    _call(job, merged, flavor, recipe, run)
    adapters.copy_texts(job, merged)
    for folder in (*sorted((pulled.folder / "components").glob("*")), place):  # where MLflow keeps a tokenizer
        adapters.copy_texts(folder, merged)
    return merged


def _pull_base(recipe: Recipe, run: RunFolder, scratch: Path) -> tuple[Path, Flavor]:
    uri, folder = str(recipe.model.base), scratch / "base"
    registry = find_registry(uri, project=run.project)
    folder.mkdir()
    version = registry.pull(find_source(registry, uri), folder)
    flavor = read_flavor(folder, trust=recipe.trust)
    if flavor.format != _FORMAT:
        raise HoneError(
            "recipe-invalid",
            "The base model of an adapter is one of Transformers.",
            why=f"hone.model.base is {uri!r}, and holds a model of the format {flavor.format}.",
            hint=f"Name the model that {adapters.CONFIG} names.",
        )
    logger.info("merging   %s into %s", recipe.model.uri, run.relate(version.uri))
    return folder, flavor


def _call(folder: Path, merged: Path, flavor: Flavor, recipe: Recipe, run: RunFolder) -> None:
    toolchain = next(one for one in read_catalogue().toolchains.values() if _FORMAT in one.runs)
    require_environments(recipe, [toolchain])
    environment = find_environment(recipe, toolchain)
    if isinstance(environment, Failed):
        raise HoneError(
            "toolchain-unbuildable",
            f"The environment of {toolchain.name} cannot be built.",
            why=environment.reason,
            hint=f"Run `kedro hone toolchains build {toolchain.name}`.",
        )
    job = Job(
        function="merge",
        worker=str(toolchain.worker),
        adaptor="source",
        input=JobInput(path=str(folder), format=_FORMAT, metadata=flavor.metadata),
        output=str(merged),
        threads=recipe.thread_count,
        trust=tuple(sorted(recipe.trust)),
    )
    place = run.claim_step("merge-adapter")
    python = Path(environment.python)
    result = call_worker(job, python=python, toolchain=toolchain, folder=place, limits=toolchain.limits)
    if not isinstance(result, StepResult):
        raise HoneError(
            "model-unsupported",
            f"{recipe.model.uri} cannot be merged into {recipe.model.base}.",
            why=f"{result.reason.rstrip('.')}.",
            hint=f"Check that hone.model.base is the model that it was trained on. {adapters.ADVICE}",
        )
