"""Count and copy untrusted folders safely: regular files and links only, within limits."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.values.regular import open_regular

MOST_FILES: Final = 100_000
"""The largest number of files in one version."""


class StrangeTreeError(ValueError):
    """A place with more than a version of a model can have, or with entries that are not files."""


def walk_tree(place: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every entry below a folder except folders, by its relative name; no link is followed.

    Raises:
        StrangeTreeError: It contains a device, a socket or a pipe, or too many files.
        OSError: It cannot be read.
    """
    count, open_ = 0, [""]
    while open_:
        below = open_.pop()
        with os.scandir(place / below) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name, state = os.path.join(below, entry.name), entry.stat(follow_symlinks=False)  # noqa: PTH118 - fast
            count += 1
            if count > MOST_FILES:
                raise StrangeTreeError(f"{place} holds more than {MOST_FILES} files")
            if stat.S_ISDIR(state.st_mode):
                open_.append(name)
            elif stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode):
                yield name, state
            else:
                raise StrangeTreeError(f"{name} is neither a file nor a folder")


def measure_tree(place: Path) -> int:
    """Return the size of a file, or of all files of a folder, in bytes; no file is opened.

    Raises:
        StrangeTreeError: As in ``walk_tree``; or it is neither a file nor a folder.
        OSError: It cannot be read.
    """
    state = place.stat()
    if stat.S_ISREG(state.st_mode):
        return state.st_size
    if not stat.S_ISDIR(state.st_mode):
        raise StrangeTreeError(f"{place} is neither a file nor a folder")
    return sum(found.st_size for _, found in walk_tree(place))


def require_room(place: Path, size: int) -> None:
    """Check that the disk of a folder has room for so many bytes.

    Raises:
        HoneError: ``store-full``: it does not.
    """
    disk = shutil.disk_usage(place)
    if size > disk.free:
        free, total = (f"{one / 2**20:.1f} MiB" for one in (disk.free, disk.total))
        raise HoneError(
            "store-full",
            f"There is no room for a model on the disk of {place}.",
            why=f"It has {size / 2**20:.1f} MiB, and {free} are free of {total} in all.",
            hint="Free space there, or take a larger disk: the catalog names that of the store, and TMPDIR and "
            "HONE_HOME name others. Then run again.",
        )


def copy_tree_bounded(source: Path, target: Path) -> None:
    """Copy the files of a folder into an existing one, links as links, after checking that they fit.

    Raises:
        StrangeTreeError: As in ``measure_tree``.
        HoneError: As in ``require_room``.
        OSError: The disk is full.
        shutil.Error: A file cannot be read or written, or was changed meanwhile.
    """
    require_room(target, measure_tree(source))
    try:
        shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True, copy_function=copy_bounded)
    except shutil.Error as error:  # its arguments are texts only
        if f"[Errno {errno.ENOSPC}]" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
        raise


def copy_bounded(source: str | Path, target: str | Path) -> None:
    """Copy a regular file, up to the size that it had when it was opened.

    Raises:
        FileNotFoundError: It is not, or no longer, a regular file; or it was changed meanwhile.
        OSError: It cannot be read or written.
    """
    try:
        with open_regular(Path(source)) as stream, Path(target).open("xb") as copy:
            size = os.fstat(stream.fileno()).st_size
            left = size
            while left and (sent := os.sendfile(copy.fileno(), stream.fileno(), size - left, min(left, 1 << 30))):
                left -= sent
            changed = left or os.fstat(stream.fileno()).st_size != size
    except ValueError as error:
        raise FileNotFoundError(f"{error}") from error
    if changed:
        raise FileNotFoundError(f"{Path(source).name} was changed while it was copied")
