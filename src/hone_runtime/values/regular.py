"""Files of strangers, read without trusting them: regular files only, bounded in size."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

LARGEST_FILE: Final = 64 << 20
"""Bytes that are read of a file at once: a hundred times what anything of ours writes."""


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; never waits, and follows no link in the last part of its path.

    Raises:
        OSError: There is none, or it is a link.
        ValueError: It is something else: a FIFO, a device, a directory.
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
    """Return the contents of a regular file of at most so many bytes.

    Raises:
        OSError: There is none, or it is a link.
        ValueError: It is larger, or no regular file.
    """
    with open_regular(path) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{path.name} is larger than {limit >> 20} MiB")
    return content
