"""Read untrusted files safely: regular files only, bounded in size."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

LARGEST_FILE: Final = 64 << 20
"""Limit in bytes for reading a file at once: a hundred times the size of anything that kedro-hone writes."""


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; never blocks, and does not follow a link in the last part of its path.

    Raises:
        OSError: The file does not exist, or is a link.
        ValueError: It is not a regular file but a FIFO, a device or a directory.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(descriptor)


def read_regular(path: Path, *, limit: int = LARGEST_FILE) -> bytes:
    """Return the contents of a regular file, up to a size limit in bytes.

    Raises:
        OSError: The file does not exist, or is a link.
        ValueError: It is larger, or not a regular file.
    """
    with open_regular(path) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{path.name} is larger than {limit >> 20} MiB")
    return content
