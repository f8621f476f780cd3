"""What can be sealed: plain files in folders, copied without links that lead out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class UnsealableError(ValueError):
    """A folder that cannot become an artifact, such as one with no file or with a link that leads out of it."""


def copy_tree(source: Path, target: Path, *, share: bool) -> None:
    """Copy a folder to a place that does not exist; a link to a file inside it becomes a copy of that file.

    With ``share`` the copy has the same bytes (hard links), which is right only for what never changes.

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
