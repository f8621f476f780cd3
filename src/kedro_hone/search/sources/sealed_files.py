"""The files of a source model, sealed in the store with their description by its toolchain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.job import JobInput, StepResult
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.conversion.quantization import rounds
from hone_runtime.errors import SLUGS, HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import ONNX_FACTS, Artifact, TensorSpec
from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_json
from hone_runtime.values.outcome import Refused
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.capabilities import MOST_OPERATORS
from kedro_hone.recipe.environments import require_environments
from kedro_hone.recipe.plan import make_plan, reach_toolchains
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.sources.jobs import call_toolchain, explain_failure
from kedro_hone.sources.catalogue import note_source, read_sources
from kedro_hone.sources.source_format import Flavor

logger = open_logger(__name__)

_HINT = (
    "Save the model so that it takes and returns tensors, by operators that its runtime has, and name the new file or "
    "version in hone.model.uri."
)
_HINTS = {
    "model-external-data": "Save the model with its data next to its file, and name the new file or version in "
    "hone.model.uri.",
    "recipe-invalid": "Name what its forward takes: "
    "`hone.model.inputs: [{name: x, dtype: float32, shape: [batch, 4]}]`.",
    "pickle-not-trusted": "Log the model again as the reason suggests, "
    "or add `hone.trust: [pickle]` if you trust its author.",
    "adapter-unmerged": "Save the merged model, and name its folder or version in hone.model.uri.",
    "source-stateful": "Let its state be an input and an output of the model, or reset it at each call; then save the "
    "model again.",
}
"""The hint if a worker refuses the source, by the refusal's slug, unless its format has another one."""
_LONGEST: Final = 60
"""The most characters of an operator's name."""
_ALONE = " The class's file runs alone: it imports installed packages, and no other file of your project."


def seal(files: Path, flavor: Flavor, recipe: Recipe, store: Store, run: RunFolder) -> Artifact:
    """Return the artifact of a source model, with its author's runtime.

    Raises:
        HoneError: ``model-unsupported``: no toolchain runs its format, or the toolchain refuses it;
            ``toolchain-missing``; ``model-corrupt``: it cannot be read.
    """
    toolchain = next((one for one in read_catalogue().toolchains.values() if flavor.format in one.runs), None)
    if toolchain is None:
        raise HoneError(
            "model-unsupported",
            f"No toolchain runs models of the format {flavor.format}.",
            why="The source model is the baseline of every comparison, so it must run.",
            hint="See `kedro-hone toolchains` for the formats that can be run.",
        )
    require_environments(recipe, [toolchain, *reach_toolchains(make_plan(recipe), flavor.format)])
    inputs = recipe.model.inputs or flavor.inputs
    given = {"inputs": inputs, "outputs": flavor.outputs, "metadata": flavor.metadata}
    unread = JobInput(path=str(files), format=flavor.format, **given)
    described = _describe(toolchain, unread, recipe, run, read_sources()[0][flavor.source][0].refused)
    for warning in _list_warnings(described):
        logger.warning("warning   %s", warning)
    specs, noted = _read_description(described, recipe.model.uri)
    metadata: dict[str, Json] = {"interface": flavor.interface, **note_source(flavor), "threads": recipe.thread_count}
    metadata |= flavor.metadata
    return store.seal(
        files,
        format=flavor.format,
        runtime=toolchain.name,
        metadata={**metadata, **noted},
        inputs=specs["inputs"] or unread.inputs,
        outputs=specs["outputs"] or unread.outputs,
    )


def _list_warnings(described: Mapping[str, Json]) -> list[str]:
    """Return a worker's warnings, such as of a pickle of another version; limited in number and length."""
    listed = described.get("warnings")
    return [" ".join(str(one).split())[:500] for one in listed[:10]] if isinstance(listed, list) else []


def _read_description(
    described: Mapping[str, Json], uri: str
) -> tuple[dict[str, tuple[TensorSpec, ...]], dict[str, Json]]:
    """Return the inputs and outputs that a worker found in a model, and its other notes."""
    try:
        specs = {
            side: tuple(TensorSpec.model_validate(spec) for spec in described.get(side) or ())
            for side in ("inputs", "outputs")
        }
        digest_json(described)
    except (ValueError, TypeError) as error:
        raise HoneError(
            "model-corrupt",
            f"{uri} cannot be read.",
            why=f"Its worker described it in a way that cannot be read: {' '.join(str(error).split())}",
            hint="Check the file in the registry.",
        ) from error
    names = ("graph", "structure", "transformers", "sklearn", "keras", *ONNX_FACTS)
    noted = {name: described[name] for name in names if described.get(name)}
    listed = described.get("operators")
    if isinstance(listed, list) and listed:
        noted["operators"] = [*_shorten_operators([str(one) for one in listed])]
    return specs, noted


def _shorten_operators(names: Sequence[str]) -> list[str]:
    """Return names, limited in number and length; those that determine how a source is compared are never dropped."""
    if len(names) > MOST_OPERATORS:
        names = sorted(names, key=lambda name: not rounds(name))
    kept = names[:MOST_OPERATORS]
    return [name if len(name) <= _LONGEST or rounds(name) else f"{name[: _LONGEST - 1]}…" for name in kept]


def _describe(
    toolchain: Toolchain, unread: JobInput, recipe: Recipe, run: RunFolder, hints: Mapping[str, str]
) -> dict[str, Json]:
    """Let the toolchain read the model's specifications in a worker; a known slug of a refusal is preserved.

    ``hints`` are those of the source's format, as ``SourceFormat.refused``.
    """
    result = call_toolchain("describe", unread, toolchain, recipe=recipe, run=run)
    if isinstance(result, StepResult):
        return result.notes
    if isinstance(result, Refused):
        hint = hints.get(result.slug) or _HINTS.get(result.slug) or hints.get("") or _HINT
        task = f" Or change model.task, which is {recipe.model.task}." if recipe.model.task else ""
        raise HoneError(
            result.slug if result.slug in SLUGS else "model-unsupported",
            f"{recipe.model.uri} cannot be optimized as it is.",
            why=result.reason,
            hint=hint + task,
        )
    named = "hone.model.module and hone.model.kwargs, which made the model, then " if recipe.model.module else ""
    if recipe.model.inputs:
        named = f"hone.model.inputs, of which its examples are made, then {named}"
    alone = _ALONE if recipe.model.module and "ModuleNotFoundError" in result.reason else ""
    check = f"{named}the file in the registry"
    raise explain_failure(result, f"{recipe.model.uri} cannot be read.", check=check, more=alone)
