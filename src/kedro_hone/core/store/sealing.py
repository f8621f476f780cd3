"""Sealing: the files of a folder become read-only, and a manifest beside them tells their sizes and digest."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

from kedro_hone.core.values.base import Json
from kedro_hone.core.values.digest import digest_json, digest_tree

FILES: Final = "files"
"""The folder of the files, inside a sealed place."""

MANIFEST: Final = "artifact.json"
"""The manifest's file, beside the folder of the files."""


class UnsealableError(ValueError):
    """A folder that cannot become an artifact, such as one with no file or with a link that leads out of it."""


def copy_tree(source: Path, target: Path, *, share: bool) -> None:
    """Copy a folder; a link to a file inside it becomes a copy of that file.

    Args:
        source: The folder.
        target: The copy; its parent exists, itself does not.
        share: Whether the copy shares the bytes (hard links), which is right only for what never changes.

    Raises:
        UnsealableError: Something in it is neither a file nor a folder, or a link that leads out of it.
        OSError: It cannot be read or written.
    """
    target.mkdir()
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir() and not path.is_symlink():
            place.mkdir()
        elif not path.is_file() or not path.resolve().is_relative_to(source.resolve()):
            raise UnsealableError(f"{path} is no file, or a link to something outside {source}")
        elif share:
            os.link(path, place)
        else:
            shutil.copyfile(path, place)


def measure_files(folder: Path) -> dict[str, int]:
    """Return the size of every file in bytes, by its relative name.

    Raises:
        UnsealableError: Something in the folder is neither a file nor a folder.
    """
    sizes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink() or not path.is_file():
            raise UnsealableError(f"{path.relative_to(folder)} is neither a file nor a folder")
        sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return sizes


def _digest_content(files: Path, manifest: Json) -> str:
    return digest_json({"files": digest_tree(files), "manifest": manifest})


def write_manifest(stage: Path, manifest: Json) -> str:
    """Make the files read-only and write the manifest beside them.

    Args:
        stage: The folder that holds ``FILES``.
        manifest: What is hashed with the files.

    Returns:
        ``sha256:…`` over the files and the manifest.

    Raises:
        UnsealableError: Something among the files is neither a file nor a folder.
        OSError: It cannot be written.
    """
    sizes = measure_files(stage / FILES)
    for name in sizes:
        (stage / FILES / name).chmod(0o444)
    digest = _digest_content(stage / FILES, manifest)
    content = {"digest": digest, "sizes": sizes, "manifest": manifest}
    (stage / MANIFEST).write_text(json.dumps(content, indent=1, sort_keys=True))
    (stage / MANIFEST).chmod(0o444)
    return digest


def read_manifest(place: Path) -> dict[str, Json] | None:
    """Return what ``write_manifest`` wrote, or None when that is damaged or a file is missing or cut short.

    Args:
        place: The folder that holds ``FILES``.

    Returns:
        ``digest``, ``sizes`` and ``manifest``.
    """
    try:
        content = json.loads((place / MANIFEST).read_text())
        return content if content["sizes"] == measure_files(place / FILES) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def is_unharmed(place: Path) -> bool:
    """Tell whether every byte is as it was sealed. Slow: all is read.

    Args:
        place: The folder that holds ``FILES``.
    """
    content = read_manifest(place)
    try:
        return content is not None and content["digest"] == _digest_content(place / FILES, content["manifest"])
    except FileNotFoundError:  # another process takes it away at this moment
        return False
