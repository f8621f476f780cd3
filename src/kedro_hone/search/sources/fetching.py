"""Pull a version from a registry into the store as an artifact that can be measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.job import JobInput, StepResult
from hone_runtime.contract.proof import EVIDENCE_FOLDER
from hone_runtime.contract.registry import UNASKED, Registry, VersionInfo
from hone_runtime.contract.tags import DIGEST, FILES
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import SLUGS, HoneError
from hone_runtime.learner.versions import check_version_files
from hone_runtime.signing.policy import SIGNATURE, Policy
from hone_runtime.signing.sign import find_signer
from hone_runtime.signing.verify import verify_version
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
from kedro_hone.search.comparison.quantization import rounds
from kedro_hone.search.sources.jobs import call_toolchain, explain_failure
from kedro_hone.search.sources.merging import merge_adapter
from kedro_hone.sources.catalogue import name_source, read_sources
from kedro_hone.sources.detection import open_pulled, read_flavor
from kedro_hone.sources.files import write_files
from kedro_hone.sources.source_format import AuthorClass, Flavor

logger = open_logger(__name__)

_HINT = (
    "Save the model so that it takes and returns tensors, by operators that its runtime has, and name the new file or "
    "version in the recipe."
)
_HINTS = {
    "model-external-data": "Save the model with its data next to its file, and name the new file or version in the "
    "recipe.",
    "recipe-invalid": "Add what its forward takes to the recipe: "
    "hone.model.inputs: [{name: x, dtype: float32, shape: [batch, 4]}].",
    "pickle-not-trusted": "Log the model again as the reason says, "
    "or add trust: [pickle] to the recipe if you trust its author.",
    "adapter-unmerged": "Save the merged model, and name its folder or version in the recipe.",
    "source-stateful": "Let its state be an input and an output of the model, or reset it at each call; then save the "
    "model again.",
}
"""What to do if a worker refused the source, by the refusal's slug, unless its format has another hint."""
_LONGEST = 60
"""The most characters of an operator's name."""
_ALONE = " The class's file runs alone: it imports installed packages, and no other file of your project."


def fetch(uri: str, registry: Registry, recipe: Recipe, store: Store, run: RunFolder) -> tuple[VersionInfo, Artifact]:
    """Pull a version, and seal its files as an artifact with its author's runtime.

    No code from the registry is executed here; the worker that reads the model's specifications runs under the limits
    of its toolchain.

    Args:
        uri: The version, in a form that the registry resolves.
        registry: The registry of the URI.
        recipe: Contains what is trusted, and how to make the author's class.
        store: The store for the artifact.
        run: The run of the worker's steps.

    Raises:
        HoneError: The model, version or alias does not exist, the registry cannot be reached, or the files are not as
            expected. ``model-optimized``: an event started the run, and the model is a winner.
    """
    model = recipe.model
    author = AuthorClass(place=model.module, kwargs=model.kwargs, project=run.project) if model.module else None
    with store.workspace() as scratch:
        pulled, files = scratch / "pulled", scratch / "files"
        pulled.mkdir()
        version = registry.pull(uri, pulled)
        if os.environ.get(UNASKED) and (version.is_optimized or (pulled / EVIDENCE_FOLDER).is_dir()):
            raise HoneError(
                "model-optimized",
                f"{version.uri} is a winner of kedro-hone: no event optimizes it again.",
                why="It has the evidence of a run with it; its tags may have been lost when it was copied.",
                hint="Start the run yourself if it is meant: `kedro run`, or the form of the service's page.",
            )
        trust = recipe.trust | ({"native"} if _is_ours(pulled, version) else set())
        place, due = pulled, version.tags.get(DIGEST)
        if model.base is not None:
            place, base = merge_adapter(open_pulled(pulled), recipe, run, scratch)
            version, due = version.model_copy(update={"base": base}), None
        flavor = read_flavor(
            place,
            trust=trust,
            author=author,
            task=model.task,
            signature=model.signature,
            due=due,
            uri=model.uri,
        )
        check_version_files(pulled, due=version.tags.get(FILES))
        (read_sources()[0][flavor.source][0].write or write_files)(flavor, place, files)
        return version, _seal(files, flavor, recipe, store, run)


def _is_ours(folder: Path, version: VersionInfo) -> bool:
    """Return whether a version is signed by the key that signs publications here."""
    signer = find_signer() if (folder / SIGNATURE).is_file() else None
    if signer is None or not signer.public:
        return False
    try:
        verify_version(folder, Policy(keys=(signer.public,)), name=version.name)
    except HoneError as error:
        logger.warning("%s %s", error.what, error.why)
        return False
    return True


def _seal(files: Path, flavor: Flavor, recipe: Recipe, store: Store, run: RunFolder) -> Artifact:
    toolchain = next((one for one in read_catalogue().toolchains.values() if flavor.format in one.runs), None)
    if toolchain is None:
        raise HoneError(
            "model-unsupported",
            f"No toolchain runs models of the format {flavor.format}.",
            why="The source model is the baseline of every comparison, so it must run.",
            hint="See `kedro hone toolchains` for the formats that can be run.",
        )
    require_environments(recipe, [toolchain, *reach_toolchains(make_plan(recipe), flavor.format)])
    inputs = recipe.model.inputs or flavor.inputs
    given = {"inputs": inputs, "outputs": flavor.outputs, "metadata": flavor.metadata}
    unread = JobInput(path=str(files), format=flavor.format, **given)
    described = _describe(toolchain, unread, recipe, run, read_sources()[0][flavor.source][0].refused)
    for warning in _list_warnings(described):
        logger.warning("warning   %s", warning)
    specs, noted = _read_description(described, recipe.model.uri)
    metadata: dict[str, Json] = {"interface": flavor.interface, **name_source(flavor), "threads": recipe.thread_count}
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
    said = described.get("warnings")
    return [" ".join(str(one).split())[:500] for one in said[:10]] if isinstance(said, list) else []


def _read_description(
    described: Mapping[str, Json], uri: str
) -> tuple[dict[str, tuple[TensorSpec, ...]], dict[str, Json]]:
    """Return the tensors of each side that a worker found in a model, and its other notes."""
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
    """Return a limited number of shortened names; those that affect the comparison of a source are not dropped."""
    if len(names) > MOST_OPERATORS:
        names = sorted(names, key=lambda name: not rounds(name))
    kept = names[:MOST_OPERATORS]
    return [name if len(name) <= _LONGEST or rounds(name) else f"{name[: _LONGEST - 1]}…" for name in kept]


def _describe(
    toolchain: Toolchain, unread: JobInput, recipe: Recipe, run: RunFolder, hints: Mapping[str, str]
) -> dict[str, Json]:
    """Let the toolchain read the model's specifications in a worker; a refusal's slug is retained if it is known.

    ``hints`` are those of the source's format, as in ``SourceFormat.refused``.
    """
    result = call_toolchain("describe", unread, toolchain, recipe=recipe, run=run)
    if isinstance(result, StepResult):
        return result.notes
    if isinstance(result, Refused):
        hint = hints.get(result.slug) or _HINTS.get(result.slug) or hints.get("") or _HINT
        task = f" Or change model.task: it says {recipe.model.task}." if recipe.model.task else ""
        raise HoneError(
            result.slug if result.slug in SLUGS else "model-unsupported",
            f"{recipe.model.uri} cannot be optimized as it is.",
            why=result.reason,
            hint=hint + task,
        )
    named = "model.module and model.kwargs in the recipe, which made the model, then " if recipe.model.module else ""
    if recipe.model.inputs:
        named = f"model.inputs in the recipe, of which its examples are made, then {named}"
    alone = _ALONE if recipe.model.module and "ModuleNotFoundError" in result.reason else ""
    check = f"{named}the file in the registry"
    raise explain_failure(result, f"{recipe.model.uri} cannot be read.", check=check, more=alone)
