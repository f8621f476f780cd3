"""Where a winner is published: the registry of its source, or another one that the recipe names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import Registry
from hone_runtime.errors import HoneError

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+")


class Target(NamedTuple):
    """A registry, and the model in it that a winner becomes a version of; None for the source's own."""

    registry: Registry
    name: str | None


def find_target(source: str, *, uri: str | None, name: str | None, project: Path | None = None) -> Target:
    """Return where the winner of a source is published.

    Args:
        source: The URI that the recipe's model is pulled from.
        uri: The URI of a model in another registry, without a version: ``hf://owner/name``, ``models:/name`` or a path.
        name: The name of another model in the source's registry.
        project: The folder to which paths are relative.

    Raises:
        HoneError: ``recipe-invalid``: both are given; and as in ``find_registry``.
    """
    if uri is None:
        return Target(find_registry(source, project=project), name)
    if name is not None:
        raise HoneError(
            "recipe-invalid",
            "The recipe names two target models for the winner.",
            why=f"hone.publish.uri is {uri!r}, and hone.publish.name is {name!r}.",
            hint="Leave hone.publish.name out: the URI names the model, too.",
        )
    return Target(find_registry(uri, project=project), _SCHEME.sub("", uri, count=1).rstrip("/"))


def find_name(target: Target, source: str) -> str:
    """Return the name of the model that the winner of a source becomes a version of.

    Raises:
        HoneError: ``recipe-invalid``: the source belongs to no model, and the recipe names none; and as in
            ``Registry.resolve``.
    """
    if name := target.name or target.registry.resolve(source).name:
        return name
    raise HoneError(
        "recipe-invalid",
        "The recipe names no target model for the winner.",
        why=f"{source} is not a version of a registered model, so the winner has no name.",
        hint="Name one in hone.publish.name, or add `hone.publish.enabled: false`.",
    )


def check_proposals(registry: Registry) -> None:
    """Check that a registry accepts winners as proposals.

    Raises:
        HoneError: ``recipe-invalid``.
    """
    if not registry.has_proposals:
        raise HoneError(
            "recipe-invalid",
            "The winner's registry has no pull requests.",
            why="hone.publish.pull_request is true, and only the Hugging Face Hub has them.",
            hint="Leave it out, or name a repository of the Hub in hone.publish.uri.",
        )
