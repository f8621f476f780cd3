"""Descriptors and media types of the Open Container Initiative's image specification, version 1.1.

Source: https://github.com/opencontainers/image-spec, "descriptor.md", "manifest.md" and "image-layout.md".
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from hone_runtime.values.base import Json

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
EMPTY: Final = "application/vnd.oci.empty.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
_DOCKER_LAYER: Final = "application/vnd.docker.image.rootfs.diff.tar.gzip"
REF_NAME: Final = "org.opencontainers.image.ref.name"
TITLE: Final = "org.opencontainers.image.title"

_ARCHITECTURES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class Platform(BaseModel):
    """The platform of an image, in Go's names."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    architecture: str
    os: str

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


def read_platform() -> Platform:
    """Return the platform of this machine."""
    machine = platform.machine().lower()
    return Platform(architecture=_ARCHITECTURES.get(machine, machine), os="linux")


class Descriptor(BaseModel):
    """The type, the digest and the size in bytes of a blob or a manifest; other keys of foreign ones are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    media_type: str
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    size: int = Field(ge=0)
    artifact_type: str | None = None
    annotations: dict[str, str] | None = None
    platform: Platform | None = None

    @property
    def hex(self) -> str:
        """The digest without the name of its algorithm."""
        return self.digest.removeprefix("sha256:")

    def dump(self) -> dict[str, Json]:
        """Return the descriptor as JSON."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A manifest in a store of blobs, with the blobs that it refers to.

    Attributes:
        descriptor: The manifest itself.
        parts: Its blobs in the order in which they are pushed: layers first, then the configuration.
    """

    descriptor: Descriptor
    parts: tuple[Descriptor, ...]


def adopt_layer(layer: Descriptor) -> Descriptor:
    """Return a layer of a base image in an OCI manifest: Docker has another name for the same bytes."""
    return layer.model_copy(update={"media_type": LAYER}) if layer.media_type == _DOCKER_LAYER else layer


def format_json(value: Json) -> bytes:
    """Return the canonical JSON of a value: equal values have equal digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest_bytes(content: bytes) -> str:
    """Return ``sha256:…`` of some bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
