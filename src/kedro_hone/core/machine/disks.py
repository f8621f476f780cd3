"""Disks: which of some folders is almost out of space, in bytes or in files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

FULL_BYTES: Final = 1 << 16
"""Free bytes at which a disk counts as full: less than a block or two of a large file system."""
LOW_BYTES: Final = 4 << 20
"""With fewer free bytes, a failure may be due to lack of space: a library may reserve a file's whole size first."""


def measure_free(folder: Path | str) -> int | None:
    """Return the bytes available to us on a folder's disk: 0 if it can have no more files; None if not known."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return 0 if found.f_files > 0 and found.f_favail == 0 else found.f_bavail * found.f_frsize


def find_low(folders: Iterable[Path | str], *, least: int = LOW_BYTES) -> tuple[str, int] | None:
    """Return the first folder with fewer than ``least`` free bytes on its disk, with this number, or None."""
    for folder in folders:
        free = measure_free(folder)
        if free is not None and free < least:
            return str(folder), free
    return None


def measure_tree(folder: Path | str) -> int:
    """Return the bytes of a folder's files; files that cannot be read count as 0."""
    size = 0
    for path in Path(folder).rglob("*"):
        with suppress(OSError):
            size += path.lstat().st_size
    return size
