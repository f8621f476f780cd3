"""The manifest of a sealed directory: written when a winner is published, checked before it is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.digest import digest_file

MANIFEST: Final = "artifact.json"
FILES: Final = "files"
"""The manifest's entry with the digest of every file."""


def write_manifest(folder: Path, artifact: Artifact) -> None:
    """Write an artifact's manifest beside its files, with the digest of each.

    Args:
        folder: Where the artifact's files lie.
        artifact: What they are.
    """
    files = {path.relative_to(folder).as_posix(): digest_file(path) for path in list_files(folder)}
    manifest = artifact.manifest() | {"digest": artifact.digest, FILES: files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_artifact(folder: Path) -> Artifact:
    """Return the artifact that a directory holds, after every file was compared with the manifest.

    Args:
        folder: A directory with a manifest.

    Returns:
        The artifact.

    Raises:
        HoneError: ``model-corrupt``: the manifest cannot be read, or a file is missing, changed or not in it.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files: dict[str, str] = manifest.pop(FILES)
        artifact = Artifact(path=str(folder.resolve()), **manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise _corrupt(folder, f"The manifest cannot be read: {error!r}.") from error
    found = {path.relative_to(folder).as_posix(): path for path in list_files(folder)}
    if odd := sorted(files.keys() ^ found.keys()):
        raise _corrupt(folder, f"{odd[0]} is {'missing' if odd[0] in files else 'not in the manifest'}.")
    for name, path in found.items():
        if digest_file(path) != files[name]:
            raise _corrupt(folder, f"{name} is not the file that was published.")
    return artifact


def list_files(folder: Path) -> list[Path]:
    """Return an artifact's files, without the manifest, in sorted order."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / MANIFEST]


def _corrupt(folder: Path, why: str) -> HoneError:
    return HoneError(
        "model-corrupt",
        f"The model in {folder.name} is not what was published.",
        why=why,
        hint="Pull or download it again; when that does not help, publish it again.",
    )
