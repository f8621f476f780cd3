"""What `kedro hone image` makes of a winner: an image or a ModelPack artifact, with the artifacts that refer to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kedro_hone.core.environments.environment import Environment
from kedro_hone.serving.environment import list_locks
from kedro_hone.serving.image.base import Base
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.contents import read_evidence, read_signature
from kedro_hone.serving.image.descriptors import Descriptor, Manifest, Platform, read_platform
from kedro_hone.serving.image.image import build_image
from kedro_hone.serving.image.leaks import Private, refuse_leaks
from kedro_hone.serving.image.modelpack import build_modelpack
from kedro_hone.serving.image.referrers import EVIDENCE_TYPE, SBOM_TYPE, SIGNATURE_TYPE, Statement, attach
from kedro_hone.serving.image.sbom import make_sbom
from kedro_hone.serving.server.configuration import TextInput
from kedro_hone.serving.winner import ServedWinner


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A winner, packed in the folder of blobs.

    Attributes:
        manifest: The image, or the ModelPack artifact.
        referrers: The artifacts that refer to it.
        platform: The image's platform; None for a ModelPack artifact.
    """

    manifest: Manifest
    referrers: tuple[Manifest, ...]
    platform: Platform | None

    @property
    def size(self) -> int:
        """The bytes of its blobs."""
        return sum(part.size for part in self.manifest.parts)


def pack_image(
    winner: ServedWinner,
    base: Base,
    *,
    environment: Environment,
    blobs: Blobs,
    private: Private,
    paths: bool = True,
    text: TextInput | None = None,
    attached: Sequence[Statement] = (),
) -> Packed:
    """Pack a winner as an image that serves it; further arguments, and errors, are those of ``build_image``.

    ``attached`` refer to the image, besides what the version contains.
    """
    image = build_image(winner, base, environment=environment, blobs=blobs, private=private, paths=paths, text=text)
    subject, evidence = image.manifest.descriptor, read_evidence(winner)
    locks = list_locks(environment)
    sbom = make_sbom(winner, subject=subject, versions=image.packages.versions, locks=locks, evidence=evidence)
    statements = [*attached, *_list_statements(winner), Statement(kind=SBOM_TYPE, name="sbom.cdx.json", content=sbom)]
    _refuse_leaks(statements, private, paths=paths)
    return Packed(manifest=image.manifest, referrers=_attach_all(statements, subject, blobs), platform=read_platform())


def pack_modelpack(winner: ServedWinner, *, blobs: Blobs, private: Private, paths: bool = True) -> Packed:
    """Pack a winner alone; the arguments and errors are those of ``build_modelpack``."""
    manifest, statements = build_modelpack(winner, blobs, private, paths=paths), _list_statements(winner)
    _refuse_leaks(statements, private, paths=paths)
    referrers = _attach_all(statements, manifest.descriptor, blobs)
    return Packed(manifest=manifest, referrers=referrers, platform=None)


def _list_statements(winner: ServedWinner) -> list[Statement]:
    """Return the winner's evidence and its signature, as far as the version has them."""
    evidence, signature = read_evidence(winner), read_signature(winner)
    found = [
        (EVIDENCE_TYPE, "evidence.json", evidence),
        (SIGNATURE_TYPE, "model.sig", signature),
    ]
    return [Statement(kind=kind, name=name, content=content) for kind, name, content in found if content is not None]


def _refuse_leaks(statements: list[Statement], private: Private, *, paths: bool) -> None:
    """Search what refers to an image as its layers are searched, before any of it is written."""
    for one in statements:  # one at a time: two may have the same name
        refuse_leaks({PurePosixPath("attached", one.name): one.content}, private, paths=paths)


def _attach_all(statements: list[Statement], subject: Descriptor, blobs: Blobs) -> tuple[Manifest, ...]:
    return tuple(attach(one, subject, blobs) for one in statements)
