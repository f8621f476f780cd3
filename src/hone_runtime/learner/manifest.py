"""The manifest in a published winner's folder: written at publication, checked before loading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hone_runtime.errors import HoneError
from hone_runtime.learner.checks import check_artifact
from hone_runtime.text import begin_sentence
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import MANIFEST, Manifest


def write_manifest(folder: Path, artifact: Artifact) -> None:
    """Write an artifact's manifest next to a copy of its files.

    Raises:
        HoneError: ``model-corrupt``: the files differ from those that were sealed.
    """
    if (folder / MANIFEST).exists():
        raise _corrupt(f"It contains a file {MANIFEST}, which is the place of its manifest.")
    manifest = Manifest.measure(folder, artifact.manifest())
    if manifest.digest != artifact.digest:
        raise _corrupt(f"Its content has the digest {manifest.digest} instead of {artifact.digest}.")
    manifest.write(folder / MANIFEST)


def read_artifact(folder: Path, *, due: str | None = None, read: Mapping[Path, str] = MappingProxyType({})) -> Artifact:
    """Return the artifact in a directory, after comparing every file with its manifest.

    Args:
        folder: The artifact's files and its manifest.
        due: The registry's digest of the artifact: an attacker who changed the files may also have changed the
            manifest.
        read: Digests of files that were read already.

    Raises:
        HoneError: ``model-corrupt``: the manifest cannot be read or has another digest; or a file is missing, changed
            or not in the manifest.
    """
    try:
        manifest = Manifest.read(folder / MANIFEST)
        artifact = Artifact(digest=manifest.digest, **manifest.attributes)
        difference = manifest.find_difference(folder, inside=True, read=read)
    except (OSError, ValueError, TypeError) as error:  # also pydantic's errors
        raise _corrupt(f"The manifest cannot be read: {error!r}.") from error
    if difference:
        raise _corrupt(f"{begin_sentence(difference)}.")
    if due not in {None, artifact.digest}:
        raise _corrupt(f"Its digest is {artifact.digest}, and the registry has {due} for it.")
    check_artifact(artifact)
    return artifact


def list_digests(folder: Path) -> dict[Path, str]:
    """Return the digests of an artifact's files, after ``read_artifact`` compared them with the manifest."""
    return {folder / name: file.digest for name, file in Manifest.read(folder / MANIFEST).files.items()}


def _corrupt(why: str) -> HoneError:
    return HoneError(
        "model-corrupt",
        "The model differs from what was sealed.",
        why=why,
        hint="Pull or download it again; if that does not help, publish it again.",
    )
