"""Pull the source model from its registry and seal it as an artifact."""

from __future__ import annotations

import importlib.util
import json
import logging
import shutil
from pathlib import Path

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.registries import find_registry
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.workplace import Workplace
from kedro_hone.core.values.artifact import Artifact, TensorSpec
from kedro_hone.core.values.base import Format, Json
from kedro_hone.core.values.outcome import Failed, Refused
from kedro_hone.core.workers.host.job import Job, JobInput, StepResult
from kedro_hone.core.workers.host.run import call_worker
from kedro_hone.recipe.schema import Recipe
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.flavor import Flavor

logger = logging.getLogger(__name__)

MODULE: Format = "pytorch-module"
"""The author's class with the state of the pulled model."""


def pull(recipe: Recipe, workplace: Workplace) -> tuple[VersionInfo, Artifact]:
    """Fetch the version that the recipe names, and seal its files as the source artifact.

    Nothing that comes from the registry is executed here; the worker that reads its specifications runs under the
    limits of its toolchain.

    Args:
        recipe: The recipe.
        workplace: Where the run works.

    Returns:
        The version with its URI pinned, and the artifact with the runtime that its author would use.

    Raises:
        HoneError: The model, version or alias does not exist, the registry does not answer, or the files are not
            what they should be.
    """
    registry = find_registry(recipe.model.uri)
    with workplace.store.workspace() as scratch:
        pulled, files = scratch / "pulled", scratch / "files"
        pulled.mkdir()
        files.mkdir()
        version = registry.pull(recipe.model.uri, pulled)
        flavor = read_flavor(pulled, trust=frozenset(recipe.trust))
        for name, target in flavor.files:
            (files / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(pulled / name, files / target)
        form = _write_module(recipe, files, flavor) if recipe.model.module else flavor.format
        artifact = _seal(form, files, flavor, recipe, workplace)
    logger.info("pulled    %s (%s, %s)", version.uri, artifact.format, artifact.digest[:19])
    return version, artifact


def _write_module(recipe: Recipe, files: Path, flavor: Flavor) -> Format:
    """Put the author's class beside the pulled state."""
    if flavor.format != "pytorch":
        raise HoneError(
            "recipe-invalid",
            "The recipe names a PyTorch class for a model that is not PyTorch's.",
            why=f"hone.model.module is {recipe.model.module!r}, and {recipe.model.uri} is {flavor.format}.",
            hint="Leave hone.model.module out, or name the PyTorch model.",
        )
    place, _, name = str(recipe.model.module).rpartition(":")
    file = find_class_file(place)
    shutil.copyfile(file, files / file.name)
    text = {"class": f"{file.stem}:{name}", "file": file.name, "kwargs": recipe.model.kwargs, "state": "model.pt2"}
    (files / "module.json").write_text(json.dumps(text, indent=2) + "\n")
    return MODULE


def find_class_file(place: str) -> Path:
    """Return the file that holds the author's class, without importing it.

    Args:
        place: ``path/to/file.py``, relative to the project, or ``package.module``.

    Returns:
        The file.

    Raises:
        HoneError: ``recipe-invalid``: there is no such file or module.
    """
    path = Path(place)
    if place.endswith(".py"):
        if path.is_file():
            return path.resolve()
    else:
        parent, _, leaf = place.rpartition(".")
        spec = importlib.util.find_spec(parent) if parent else None
        folders = list(spec.submodule_search_locations or []) if spec else []
        found = [Path(folder) / f"{leaf}.py" for folder in folders if (Path(folder) / f"{leaf}.py").is_file()]
        if found:
            return found[0]
        top = importlib.util.find_spec(place) if not parent else None
        if top and top.origin:
            return Path(top.origin)
    raise HoneError(
        "recipe-invalid",
        f"The class's file {place!r} does not exist.",
        why="hone.model.module is looked for as a path below the project's folder, or as package.module.",
        hint="Write path/to/file.py:Class or package.module:Class.",
    )


def _seal(form: Format, files: Path, flavor: Flavor, recipe: Recipe, workplace: Workplace) -> Artifact:
    toolchain = _find_runtime(form)
    inputs = recipe.model.inputs or flavor.inputs
    unread = JobInput(path=str(files), format=form, inputs=inputs, outputs=flavor.outputs)
    described = _describe(toolchain, unread, recipe, workplace)
    specs = {
        side: tuple(TensorSpec.model_validate(spec) for spec in described.get(side) or ()) or getattr(flavor, side)
        for side in ("inputs", "outputs")
    }
    metadata: dict[str, Json] = {"interface": flavor.interface, "threads": recipe.thread_count}
    metadata |= {name: described[name] for name in ("graph", "structure") if described.get(name)}
    return workplace.store.seal(
        files,
        format=form,
        inputs=specs["inputs"],
        outputs=specs["outputs"],
        runtime=toolchain.name,
        metadata=metadata,
    )


def _find_runtime(form: Format) -> Toolchain:
    for toolchain in read_catalogue().toolchains.values():
        if form in toolchain.runs:
            return toolchain
    raise HoneError(
        "model-unsupported",
        f"No toolchain runs models of the format {form}.",
        why="The source model is the baseline of every comparison, so it must run.",
        hint="See `kedro hone toolchains` for the formats that can be run.",
    )


def _describe(toolchain: Toolchain, unread: JobInput, recipe: Recipe, workplace: Workplace) -> dict[str, Json]:
    """Let the toolchain read the model's specifications in a worker."""
    environment = EnvironmentStore().ensure(toolchain)
    if isinstance(environment, Failed):
        raise HoneError(
            "model-unsupported",
            f"The environment of {toolchain.name} cannot be built.",
            why=environment.reason,
            hint=f"Read {environment.log}, or run `kedro hone toolchains build {toolchain.name}`.",
        )
    result = call_worker(
        Job(
            function="describe",
            worker=str(toolchain.worker),
            adaptor="source",
            input=unread,
            threads=recipe.thread_count,
            seed=recipe.seed,
            shapes=recipe.all_shapes,
            trust=tuple(sorted(recipe.trust)),
        ),
        python=Path(environment.python),
        toolchain=toolchain,
        folder=workplace.claim_step("describe-source"),
        limits=toolchain.limits,
    )
    if isinstance(result, StepResult):
        return result.notes
    raise _explain(result, recipe)


def _explain(result: Refused | Failed, recipe: Recipe) -> HoneError:
    if isinstance(result, Refused):
        return HoneError(
            "model-unsupported",
            f"{recipe.model.uri} cannot be optimized as it is.",
            why=result.reason,
            hint="Save the model so that it takes and returns tensors, and name the new file or version in the recipe.",
        )
    if "external data" in result.reason.lower():
        return HoneError(
            "model-external-data",
            f"{recipe.model.uri} keeps data outside its folder.",
            why=result.reason,
            hint="Save the model with its data beside it (onnx.save_model, location without folders).",
        )
    return HoneError(
        "model-corrupt",
        f"{recipe.model.uri} cannot be read.",
        why=result.reason,
        hint=f"Check the file in the registry{f'; the log is {result.log}' if result.log else ''}.",
    )
