"""Forms of a winner that are published with it: folders for servers, and an image.

They are made before the evidence, which contains their digests. So none of them contains the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.digest import digest_tree
from hone_runtime.values.forms import IMAGE, WinnerForm
from kedro_hone.core.environments.store import find_home
from kedro_hone.recipe.publish import ImageSection
from kedro_hone.serving.environment import build_server
from kedro_hone.serving.export.exports import export_winner, list_misfits
from kedro_hone.serving.export.target import Request
from kedro_hone.serving.image.base import DEFAULT_BASE, fetch_base
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.leaks import read_private
from kedro_hone.serving.image.packing import Packed, pack_image
from kedro_hone.serving.image.push import push_image, tag_image
from kedro_hone.serving.image.references import read_target
from kedro_hone.serving.image.referrers import EVIDENCE_TYPE, Statement
from kedro_hone.serving.image.registry import Repository
from kedro_hone.serving.image.transport import RegistryError
from kedro_hone.serving.staging import stage_artifact
from kedro_hone.serving.winner import ServedWinner, make_server_name


@dataclass(frozen=True, kw_only=True)
class ImagePlace:
    """Where an image is pushed, and what it is built on.

    Attributes:
        push: registry/name:tag.
        base: A reference, or the folder of an OCI layout.
        project: The project's folder, whose path may be in no layer.
    """

    push: str
    base: str = DEFAULT_BASE
    project: Path


def find_place(image: ImageSection | None, project: Path) -> ImagePlace | None:
    """Return where the image of a recipe is pushed; None if it requires none."""
    if image is None:
        return None
    return ImagePlace(push=image.push, base=image.base or DEFAULT_BASE, project=project)


def check_place(place: ImagePlace) -> None:
    """Check that the registry answers, and bring the base image, before hours are spent on a winner.

    Raises:
        HoneError: ``option-invalid``, ``image-push-failed`` or ``image-base-unfit``.
    """
    target = read_target(place.push)
    fetch_base(place.base, _open_blobs())
    try:
        Repository(target, push=True).read_manifest(target.tag)
    except RegistryError as error:
        raise HoneError(
            "image-push-failed",
            f"The registry of {target} cannot be used.",
            why=f"{error}.",
            hint="Correct hone.publish.image.push, log in to the registry, or remove image from hone.publish.export.",
        ) from error


@contextmanager
def place_winner(artifact: Artifact, files: Path, golden: Path | None, *, name: str) -> Iterator[ServedWinner]:
    """Write a winner of a run as a version without evidence, describe it for servers, and remove it at the end.

    Args:
        artifact: The winner.
        files: The folder of its files.
        golden: The file of its golden rows; None if there are none.
        name: The name of the model that it will be published to.

    Raises:
        HoneError: ``serving-unsupported``: a tensor has a type that servers do not know; ``model-corrupt``.
    """
    with TemporaryDirectory(prefix="kedro-hone-") as scratch:
        folder = Path(scratch, make_server_name(name))
        yield stage_artifact(artifact, files, folder, uri=name, golden=golden, trusted=True)


def write_forms(
    winner: ServedWinner, names: Iterable[str], folder: Path, *, image: ImagePlace | None
) -> tuple[WinnerForm, ...]:
    """Write each form that fits a winner to the folder of its name, and pack the image.

    Args:
        winner: The winner, as ``place_winner`` yields it.
        names: The forms.
        folder: The parent of the folders.
        image: Where the image is pushed; None without one.

    Returns:
        Each form with its digest, or with the reason why it does not fit.

    Raises:
        HoneError: ``winner-differs``: the golden rows differ in the written files; or as in ``pack``.
    """
    request, found = Request(trusted=True), list[WinnerForm]()
    misfits = list_misfits(winner, request)
    for name in names:
        if name == IMAGE and image is not None:
            digest = pack(winner, image).manifest.descriptor.digest
            found.append(WinnerForm(form=name, digest=digest, place=read_target(image.push).place))
        elif misfits[name]:
            found.append(WinnerForm(form=name, reason=misfits[name]))
        else:
            written = export_winner(winner, name, request, folder / name).folder
            found.append(WinnerForm(form=name, digest=digest_tree(written)))
    return tuple(found)


def pack(winner: ServedWinner, place: ImagePlace, *, evidence: bytes | None = None) -> Packed:
    """Pack a winner as an image; equal winners on one base give one digest, whatever the evidence.

    Args:
        winner: The winner, as ``place_winner`` yields it.
        place: Where it is pushed, and its base.
        evidence: The evidence that is attached to the image; None for none.

    Raises:
        HoneError: ``image-base-unfit``, ``image-leaks``, ``serving-unsupported``, ``toolchain-unbuildable``.
    """
    blobs = _open_blobs()
    base = fetch_base(place.base, blobs)
    private, environment = read_private(place.project), build_server([winner])
    attached = [] if evidence is None else [Statement(kind=EVIDENCE_TYPE, name="evidence.json", content=evidence)]
    return pack_image(winner, base, environment=environment, blobs=blobs, private=private, attached=attached)


def push(packed: Packed, place: ImagePlace) -> None:
    """Push an image with what is attached to it, without the tag: that is written by ``tag`` when the alias moves.

    Raises:
        HoneError: ``image-push-failed``.
    """
    target = read_target(place.push)
    repository = Repository(target, push=True)
    blobs, referrers = _open_blobs(), packed.referrers
    push_image(packed.manifest, target, blobs=blobs, repository=repository, referrers=referrers, tags=False)


def tag(digest: str, push: str) -> None:
    """Write the tag of a pushed image.

    Args:
        digest: The image, as in the evidence.
        push: registry/name:tag, as in the recipe.

    Raises:
        HoneError: ``image-push-failed``.
    """
    target = read_target(push)
    tag_image(digest, target, Repository(target, push=True))


def _open_blobs() -> Blobs:
    return Blobs(find_home() / "images")
