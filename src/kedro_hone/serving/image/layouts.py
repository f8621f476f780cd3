"""Folders in the image layout: ``oci-layout``, ``index.json`` and ``blobs/sha256/<hex>``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from hone_runtime.errors import HoneError
from hone_runtime.values.manifest import link_or_copy
from hone_runtime.values.regular import read_regular
from kedro_hone.core.store.disk import explain_disk_errors, write_file
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import INDEX, REF_NAME, Descriptor, Manifest, Platform, format_json

MARK: Final = "oci-layout"
_VERSION: Final = {"imageLayoutVersion": "1.0.0"}


class _Index(BaseModel):
    """The part of an image index that is read."""

    manifests: tuple[Descriptor, ...] = ()


def is_layout(folder: Path) -> bool:
    """Return whether a folder is an image layout."""
    return (folder / MARK).is_file()


def check_target(folder: Path) -> None:
    """Refuse a folder that has other files than an image layout's.

    Raises:
        HoneError: ``option-invalid``.
    """
    if folder.exists() and not is_layout(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise HoneError(
            "option-invalid",
            f"No image can be written to {folder}.",
            why="It is neither empty nor an image layout, and nothing in it is replaced.",
            hint="Name a new folder by --output.",
        )


def write_layout(
    folder: Path,
    image: Manifest,
    *,
    blobs: Blobs,
    referrers: Iterable[Manifest] = (),
    tag: str,
    platform: Platform | None,
) -> None:
    """Write an image with its referrers as a layout; the index is replaced last, so that it is never incomplete.

    Args:
        folder: The layout: absent, empty, or a layout whose image is replaced.
        image: The manifest that the tag refers to.
        blobs: Where the manifests and their blobs are.
        referrers: The manifests that refer to the image.
        tag: The name of the image in the layout.
        platform: The platform of the image; None if it is no image but an artifact.

    Raises:
        HoneError: ``option-invalid``, ``store-full`` or ``store-read-only``.
    """
    check_target(folder)
    referrers = tuple(referrers)
    with explain_disk_errors(folder):
        place = folder / "blobs" / "sha256"
        place.mkdir(parents=True, exist_ok=True)
        for one in (image, *referrers):
            for part in (*one.parts, one.descriptor):
                _copy_blob(blobs.locate(part.digest), place / part.hex)
        write_file(folder / MARK, format_json(_VERSION))
        entry = image.descriptor.model_copy(update={"annotations": {REF_NAME: tag}, "platform": platform})
        manifests = [entry.dump(), *(one.descriptor.dump() for one in referrers)]
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        write_file(folder / "index.json", format_json(index))


def read_index(folder: Path) -> tuple[Descriptor, ...]:
    """Return the manifests of a layout.

    Raises:
        OSError: The index cannot be read.
        ValueError: It is not an index.
    """
    return read_descriptors(read_regular(folder / "index.json"))


def read_descriptors(index: bytes) -> tuple[Descriptor, ...]:
    """Return the manifests of an image index; raises ``ValueError`` for other content."""
    return _Index.model_validate_json(index).manifests


def _copy_blob(source: Path, target: Path) -> None:
    """Give a blob a second name in a layout; one that is there is replaced, since it may be damaged."""
    temporary = target.with_name(f".{target.name}")
    temporary.unlink(missing_ok=True)
    try:
        link_or_copy(source, temporary)
        temporary.replace(target)
        temporary.unlink(missing_ok=True)  # of two names of one file, a rename removes neither
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
