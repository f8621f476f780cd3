"""The image that a winner's image is based on: its layers stay as they are, and must fit this machine's packages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, TypeAdapter

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.errors import HoneError
from hone_runtime.values.base import Json
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import (
    DOCKER_LIST,
    INDEX,
    Descriptor,
    Platform,
    adopt_layer,
    digest_bytes,
    read_platform,
)
from kedro_hone.serving.image.layouts import is_layout, read_descriptors, read_index
from kedro_hone.serving.image.references import read_reference
from kedro_hone.serving.image.registry import Repository
from kedro_hone.serving.image.transport import RegistryError

PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
DEFAULT_BASE: Final = f"python:{PYTHON}-slim"
_SLUG: Final = "image-base-unfit"
_DEPTH: Final = 3
"""How many indexes may lead to a manifest."""


class _Image(BaseModel):
    """The part of an image's manifest that is read."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class _Settings(BaseModel):
    """The settings of containers in an image's configuration that are taken over."""

    env: tuple[str, ...] | None = Field(None, alias="Env")
    labels: dict[str, str] | None = Field(None, alias="Labels")


class _Files(BaseModel):
    diff_ids: tuple[str, ...]


class _Config(BaseModel):
    """The part of an image's configuration that is read; it is taken over as it is where it fits."""

    architecture: str
    os: str
    variant: str | None = None
    config: _Settings | None = None
    rootfs: _Files
    history: tuple[dict[str, Json], ...] | None = None


_JSON: Final = TypeAdapter(dict[str, Json])

Read = Callable[[Descriptor], bytes]


@dataclass(frozen=True, kw_only=True)
class Base:
    """A base image, whose blobs are in the folder of blobs.

    Attributes:
        name: The registry reference; empty for a layout.
        digest: The digest of its manifest.
        layers: Its layers, lowest first.
        config: Its configuration.
        python: Its version of Python as far as it is known; empty otherwise.
    """

    name: str
    digest: str
    layers: tuple[Descriptor, ...]
    config: Mapping[str, Json]
    python: str

    @property
    def diff_ids(self) -> list[str]:
        """The digests of its uncompressed layers."""
        return list(self.config["rootfs"]["diff_ids"])


def fetch_base(name: str, blobs: Blobs, *, insecure: bool = False) -> Base:
    """Return a base image for this machine, and bring its blobs to a folder of blobs.

    Args:
        name: The folder of an image layout, or a registry reference.
        blobs: The folder of blobs; what it has is not read again.
        insecure: Whether a registry may be reached without TLS.

    Raises:
        HoneError: ``image-base-unfit``: it cannot be read, or is for another architecture or Python.
    """
    folder = Path(name)
    try:
        if is_layout(folder):
            return _read_layout(folder, blobs)
        if folder.is_dir():
            raise _refuse(name, "The folder has no file oci-layout.", hint="Name an image layout or a reference.")
        return _pull(name, blobs, insecure=insecure)
    except (RegistryError, OSError, ValueError) as error:
        why = str(error) if isinstance(error, RegistryError) else describe_exception(error)
        hint = "Check the name and the credentials, or name another base by --base: an image layout needs no registry."
        raise _refuse(name, why, hint=hint) from error


def _read_layout(folder: Path, blobs: Blobs) -> Base:
    def read(descriptor: Descriptor) -> bytes:
        content = (folder / "blobs" / "sha256" / descriptor.hex).read_bytes()
        if digest_bytes(content) != descriptor.digest:
            raise ValueError(f"the blob {descriptor.digest} is damaged")
        return content

    def bring(descriptor: Descriptor) -> None:
        if not blobs.has(descriptor):
            with blobs.make_file() as path:
                shutil.copyfile(folder / "blobs" / "sha256" / descriptor.hex, path)
                blobs.place(path, descriptor.digest)
            if not blobs.has(descriptor):
                blobs.locate(descriptor.digest).unlink()
                raise ValueError(f"the blob {descriptor.digest} is damaged")

    images = [one for one in read_index(folder) if one.artifact_type is None]
    manifest = _choose(images, read, name=str(folder))
    return _make_base("", manifest, read(manifest), read=read, bring=bring)


def _pull(name: str, blobs: Blobs, *, insecure: bool) -> Base:
    reference = read_reference(name)
    repository = Repository(reference, insecure=insecure)

    def read(descriptor: Descriptor) -> bytes:
        if (
            descriptor.media_type.endswith("+json") and "manifest" in descriptor.media_type
        ) or "index" in descriptor.media_type:
            return _fetch_manifest(repository, descriptor.digest)[0]
        repository.pull_blob(descriptor, blobs)
        return blobs.locate(descriptor.digest).read_bytes()

    content, kind = _fetch_manifest(repository, reference.tag)
    first = Descriptor(media_type=kind, digest=digest_bytes(content), size=len(content))
    manifest = _choose([first], read, name=name)
    return _make_base(
        str(reference), manifest, read(manifest), read=read, bring=lambda one: repository.pull_blob(one, blobs)
    )


def _fetch_manifest(repository: Repository, name: str) -> tuple[bytes, str]:
    found = repository.read_manifest(name)
    if found is None:
        raise RegistryError(f"there is no {name}", status=404)
    return found


def _choose(entries: list[Descriptor], read: Read, *, name: str, depth: int = _DEPTH) -> Descriptor:
    """Return the manifest for this machine's platform among entries of an index."""
    wanted = read_platform()
    fitting = [one for one in entries if one.platform in {None, wanted}]
    if not fitting:
        offered = ", ".join(sorted({str(one.platform) for one in entries})) or "no image"
        raise _refuse_platform(name, offered, wanted)
    if len(fitting) > 1:
        raise ValueError(f"it has {len(fitting)} images for {wanted}; name one of them by its digest")
    (found,) = fitting
    if found.media_type in {INDEX, DOCKER_LIST} and depth:
        return _choose(list(read_descriptors(read(found))), read, name=name, depth=depth - 1)
    return found


def _make_base(
    name: str, manifest: Descriptor, content: bytes, *, read: Read, bring: Callable[[Descriptor], None]
) -> Base:
    image = _Image.model_validate_json(content)
    written = read(image.config)
    config, known = _JSON.validate_json(written), _Config.model_validate_json(written)
    shown = name or "The base"
    found = Platform(architecture=known.architecture, os=known.os)
    if found != read_platform():
        raise _refuse_platform(shown, str(found), read_platform())
    python = _find_python(known.config)
    if python and not f"{python}.".startswith(f"{PYTHON}."):
        why = f"Its configuration has PYTHON_VERSION={python}, and the packages were installed for Python {PYTHON}."
        raise _refuse(shown, why, hint=f"Name a base with Python {PYTHON}, such as --base {DEFAULT_BASE}.")
    if len(known.rootfs.diff_ids) != len(image.layers):
        raise ValueError("its configuration has another number of layers than its manifest")
    for layer in image.layers:
        bring(layer)
    return Base(
        name=name,
        digest=manifest.digest,
        layers=tuple(map(adopt_layer, image.layers)),
        config=config,
        python=python,
    )


def _find_python(settings: _Settings | None) -> str:
    """Return the version of Python in the variables of an image, as the official images of Python set it."""
    variables = dict(one.partition("=")[::2] for one in (settings and settings.env) or ())
    return variables.get("PYTHON_VERSION", "")


def _refuse_platform(name: str, offered: str, wanted: Platform) -> HoneError:
    return _refuse(
        name,
        f"It is for {offered}, and the packages and the winner of this machine are for {wanted}.",
        hint=f"Name a base for {wanted}, or build the image on a machine of the other architecture.",
    )


def _refuse(name: str, why: str, *, hint: str) -> HoneError:
    return HoneError(_SLUG, f"The base image {name} cannot be used.", why=why, hint=hint)
