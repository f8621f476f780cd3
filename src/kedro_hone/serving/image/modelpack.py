"""A winner alone as an artifact of the CNCF ModelPack specification, for runtimes that bring their own server.

Source: https://github.com/modelpack/model-spec, its pages "spec", "config" and "annotations".
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import Any, Final

from hone_runtime.contract.proof import EVIDENCE_FOLDER
from hone_runtime.values.digest import digest_file
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.contents import list_version, name_source
from kedro_hone.serving.image.descriptors import MANIFEST, TITLE, Descriptor, Manifest, format_json
from kedro_hone.serving.image.leaks import Private, refuse_leaks
from kedro_hone.serving.winner import ServedWinner

ARTIFACT: Final = "application/vnd.cncf.model.manifest.v1+json"
_CONFIG: Final = "application/vnd.cncf.model.config.v1+json"
_KINDS: Final = {kind: f"application/vnd.cncf.model.{kind}.v1.raw" for kind in ("weight", "weight.config", "doc")}
_PATH: Final = "org.cncf.model.filepath"
_TEXTS: Final = frozenset({".json", ".txt", ".yaml", ".yml", ".model", ".py"})
"""Files next to the weights that are settings or vocabularies."""


def build_modelpack(winner: ServedWinner, blobs: Blobs, private: Private, *, paths: bool = True) -> Manifest:
    """Write a winner's version as a ModelPack artifact: one layer for each file, uncompressed.

    Args:
        winner: The winner.
        blobs: The folder of blobs.
        private: What no file may contain.
        paths: Whether paths of this machine are looked for.

    Raises:
        HoneError: ``image-leaks``, ``store-full`` or ``store-read-only``.
    """
    files = list_version(winner)
    refuse_leaks(files, private, paths=paths)
    layers = tuple(_add_file(name, path, blobs) for name, path in sorted(files.items()) if isinstance(path, Path))
    described = _describe(winner, layers)
    refuse_leaks({PurePosixPath("config.json"): format_json(described)}, private, paths=paths)
    config = blobs.add_json(described, _CONFIG)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": config.dump(),
        "layers": [one.dump() for one in layers],
    }
    manifest = blobs.add_json(document, MANIFEST).model_copy(update={"artifact_type": ARTIFACT})
    return Manifest(descriptor=manifest, parts=(*layers, config))


def _add_file(name: PurePosixPath, path: Path, blobs: Blobs) -> Descriptor:
    digest, size = digest_file(path), path.stat().st_size
    descriptor = Descriptor(
        media_type=_KINDS[_find_kind(name)],
        digest=digest,
        size=size,
        annotations={_PATH: str(name), TITLE: str(name)},
    )
    if not blobs.has(descriptor):
        with blobs.make_file() as target:
            shutil.copyfile(path, target)
            blobs.place(target, digest)
    return descriptor


def _find_kind(name: PurePosixPath) -> str:
    """Return what a file of a version is: documentation, settings, or weights."""
    if name.parts[0] == EVIDENCE_FOLDER or name.suffix == ".md":
        return "doc"
    settings = len(name.parts) == 1 or name.suffix in _TEXTS
    return "weight.config" if settings else "weight"


def _describe(winner: ServedWinner, layers: tuple[Descriptor, ...]) -> dict[str, Any]:
    source = name_source(winner)
    return {
        "descriptor": {
            "name": winner.name,
            "version": winner.version,
            "revision": winner.artifact.digest,
            **({"sourceURL": source} if source else {}),
        },
        "config": {"format": winner.artifact.format},
        "modelfs": {"type": "layers", "diffIds": [one.digest for one in layers]},
    }
