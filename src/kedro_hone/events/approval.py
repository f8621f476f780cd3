"""Approve a winner: its evidence is checked before the alias moves, because anyone with write access can set tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hone_runtime.contract.aliases import approve, find_awaited
from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import Publication, VersionInfo
from hone_runtime.errors import HoneError
from kedro_hone.events.event import format_model_name
from kedro_hone.events.rules import covers
from kedro_hone.serving.tagging import follow_alias, read_images


@dataclass(frozen=True, kw_only=True)
class ImagePlace:
    """Where a recipe pushes the image of a winner.

    Attributes:
        push: registry/name:tag.
        alias: The alias of its winners.
        models: The name of the model that its winners become versions of, or a pattern as in a rule.
        others: The patterns of rules that are before it: what these include does not get to this recipe.
    """

    push: str
    alias: str
    models: str
    others: tuple[str, ...] = ()

    def is_for(self, winner: VersionInfo, alias: str) -> bool:
        """Return whether a winner that gets an alias may have been published by this recipe."""
        name = format_model_name(winner.name, uri=winner.uri)
        included = covers(self.models, name) and not any(covers(other, name) for other in self.others)
        return alias == self.alias and included


def approve_winner(uri: str, *, project: Path, alias: str = "", places: Sequence[ImagePlace] = ()) -> Publication:
    """Move the alias to a winner that waits for it, and the tag of its image, if files and evidence prove it.

    If this machine signs what it publishes, the version must be signed by the same key. If its evidence lists an image
    for none of the recipes' places, the alias moves, and a warning is logged.

    Args:
        uri: The winner.
        project: The root of the Kedro project.
        alias: The approved alias; empty for the one that the winner waits for.
        places: Where this project's recipes push images. A tag is written only at those for this model and alias,
            whatever the evidence names.

    Raises:
        HoneError: As ``approve``; ``approval-outdated``: it waits for another alias now; as ``read_images``;
            ``image-push-failed``: the alias was moved, and a tag of the image was not written.
    """
    registry = find_registry(uri, project=project)
    info, awaited = find_awaited(registry, uri, approved=alias)
    images = read_images(registry, info.uri, [place.push for place in places if place.is_for(info, awaited)])
    publication = approve(registry, info.uri, approved=awaited)  # the tag may have been changed meanwhile
    failed = list[HoneError]()
    for push, image in images.items() if publication.alias else ():
        try:
            follow_alias(registry, info.name, publication, image=image, push=push)
        except HoneError as error:  # the other tags are written all the same
            failed.append(error)
    if failed:
        raise _join(failed) from failed[0]
    return publication


def _join(failed: Sequence[HoneError]) -> HoneError:
    """Return one error for the tags that were not written."""
    if len(failed) == 1:
        return failed[0]
    what, why, hint = (
        " ".join(dict.fromkeys(texts)) for texts in zip(*((one.what, one.why, one.hint) for one in failed), strict=True)
    )
    return HoneError(failed[0].slug, what, why=why, hint=hint)
