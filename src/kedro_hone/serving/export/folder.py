"""Write the files of an export into a folder at once: it is complete, or absent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TypeVar

from hone_runtime.errors import HoneError
from kedro_hone.serving.export.target import Files

T = TypeVar("T")


def write_folder(files: Files, folder: Path, check: Callable[[Path], T]) -> T:
    """Write files next to a folder, check them, and move them to it; return the result of the check.

    Args:
        files: The files, or their contents, by their paths below the folder.
        folder: The folder, which must not exist or be empty.
        check: Called with the complete folder before it is moved; what it raises leaves nothing behind.

    Raises:
        HoneError: ``option-invalid``: there are files in the folder, it is none, or nothing may be written there.
    """
    folder = folder.absolute()
    _require_empty(folder)
    _make_parent(folder)
    with tempfile.TemporaryDirectory(
        dir=folder.parent, prefix=f".{folder.name}.", ignore_cleanup_errors=True
    ) as scratch:
        made = Path(scratch, "export")
        for name, content in files.items():
            _write_file(made, name, content)
        found = check(made)
        _require_empty(folder)
        made.rename(folder)  # replaces an empty folder, and fails for any other
    return found


def _make_parent(folder: Path) -> None:
    """Make the folder in which a folder is written, and check that it can be."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder.parent).close()
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise HoneError(
            "option-invalid",
            f"{folder} cannot be written.",
            why=f"{error.strerror}: {error.filename or folder.parent}.",
            hint="Name a folder with --output where you may write.",
        ) from error


def _write_file(folder: Path, name: PurePosixPath, content: Path | bytes) -> None:
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"{name} is outside the folder")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        shutil.copyfile(content, path)


def _require_empty(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise HoneError(
            "option-invalid",
            f"{folder} cannot be written: it exists.",
            why="An export writes a new folder, or an empty one, and replaces nothing.",
            hint="Name another folder with --output, or remove this one.",
        )
