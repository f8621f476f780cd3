"""The reasons not to try an adaptor on an artifact at all: found in milliseconds, without starting anything."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.host import Host
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.outcome import Refused
from kedro_hone.core.environments.environment import Environment
from kedro_hone.recipe.capabilities import find_limit, find_versions_to_write
from kedro_hone.recipe.environments import find_environment
from kedro_hone.recipe.schema import Recipe


def find_mismatch(
    adaptor: Adaptor, parent: Artifact, host: Host, recipe: Recipe, *, labelled: bool = True
) -> Refused | None:
    """Return why an adaptor does not take an artifact on a machine, by its description and its ``capabilities.yml``.

    Args:
        adaptor: The adaptor.
        parent: The artifact.
        host: The machine.
        recipe: The recipe.
        labelled: Whether the metric compares outputs with labels. If it compares them with the source's outputs, as
            ``fidelity`` does, no adaptor that trains is tried: what it changes on purpose would count as an error.

    Raises:
        HoneError: ``capabilities-invalid``.
    """
    text = [spec.name for spec in (*parent.inputs, *parent.outputs) if spec.dtype == "str"]
    if missing := adaptor.find_missing(host):
        slug, reason = "host", missing
    elif parent.format not in adaptor.accepts:
        slug, reason = "format", f"takes {', '.join(sorted(adaptor.accepts))}, and the model is {parent.format}"
    elif parent.has_cache and parent.format != adaptor.produces:
        slug = "format"
        reason = f"{adaptor.produces} would lose the cache of keys and values that this {parent.format} has"
    elif text and not adaptor.toolchain.takes_text:
        slug, reason = "text", f"{adaptor.toolchain.name} takes no text, and {text[0]!r} is text"
    elif adaptor.trains and not labelled:
        slug = "labels"
        reason = (
            f"changes what the network computes, and {recipe.program.name} only compares with the source's outputs: "
            "name the program of the task by `hone.program.name`, with labels in the data"
        )
    else:
        return find_limit(adaptor, parent, host, find_versions=partial(_find_versions, adaptor, recipe))
    return Refused(by=adaptor.name, slug=slug, reason=reason)


def find_written(adaptor: Adaptor, recipe: Recipe) -> dict[str, Json] | None:
    """Return in which versions of ONNX an adaptor's worker must first write a model; None if unlimited.

    Raises:
        HoneError: ``capabilities-invalid``.
    """
    return find_versions_to_write(adaptor, find_versions=partial(_find_versions, adaptor, recipe))


def _find_versions(adaptor: Adaptor, recipe: Recipe) -> Mapping[str, str]:
    """Return the installed versions for an adaptor's toolchain, from its existing environment."""
    found = find_environment(recipe, adaptor.toolchain, build=False)
    return found.versions if isinstance(found, Environment) else {}
