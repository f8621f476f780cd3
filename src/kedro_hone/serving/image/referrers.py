"""Artifacts that refer to an image: its evidence, its bill of materials and the winner's signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import EMPTY, MANIFEST, TITLE, Descriptor, Manifest

EVIDENCE_TYPE: Final = "application/vnd.kedro-hone.evidence.v2+json"
SBOM_TYPE: Final = "application/vnd.cyclonedx+json"
SIGNATURE_TYPE: Final = "application/vnd.kedro-hone.model-signature.v1+json"
CREATED: Final = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A file about an image.

    Attributes:
        kind: Its media type, by which it is found.
        name: Its file name.
        content: Its bytes.
    """

    kind: str
    name: str
    content: bytes


def attach(statement: Statement, subject: Descriptor, blobs: Blobs) -> Manifest:
    """Write the artifact that refers to a subject by its digest, and return its manifest."""
    layer = blobs.add(statement.content, statement.kind).model_copy(update={"annotations": {TITLE: statement.name}})
    config = blobs.add(b"{}", EMPTY)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": statement.kind,
        "config": config.dump(),
        "layers": [layer.dump()],
        "subject": Descriptor(media_type=subject.media_type, digest=subject.digest, size=subject.size).dump(),
        "annotations": {"org.opencontainers.image.created": CREATED},
    }
    manifest = blobs.add_json(document, MANIFEST).model_copy(update={"artifact_type": statement.kind})
    return Manifest(descriptor=manifest, parts=(layer, config))


def make_fallback_tag(subject: Descriptor) -> str:
    """Return the tag under which clients look for referrers where a registry has no list of them."""
    return subject.digest.replace(":", "-")
