"""Approve a winner: its evidence is checked before the alias moves, because anyone with write access can set tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hone_runtime.contract.aliases import approve, find_awaited
from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import Publication
from kedro_hone.serving.tagging import follow_alias, read_images


def approve_winner(
    uri: str, *, project: Path, alias: str = "", pushes: Mapping[str, Sequence[str]] | None = None
) -> Publication:
    """Move the alias to a winner that waits for it, and the tag of its image, if files and evidence prove it.

    If this machine signs what it publishes, the version must be signed by the same key. If its evidence lists no image
    for a recipe's place, the alias moves, and a warning is logged.

    Args:
        uri: The winner.
        project: The root of the Kedro project.
        alias: The approved alias; empty for the one that the winner waits for.
        pushes: Where this project's recipes push the image of a winner, by the alias of each recipe. A tag is written
            only there, whatever the evidence names.

    Raises:
        HoneError: As ``approve``; ``approval-outdated``: it waits for another alias now; as ``read_images``;
            ``image-push-failed``: the alias was moved, and the tag of the image was not written.
    """
    registry = find_registry(uri, project=project)
    info, awaited = find_awaited(registry, uri, approved=alias)
    images = read_images(registry, info.uri, (pushes or {}).get(awaited, ()))
    publication = approve(registry, info.uri, approved=awaited)  # the tag may have been changed meanwhile
    if publication.alias:
        for push, image in images.items():
            follow_alias(registry, info.name, publication, image=image, push=push)
    return publication
