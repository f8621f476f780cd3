"""What a worker sends or leaves behind, read without trusting it: regular files only, bounded in size and depth.

A worker runs a toolchain on somebody's model, and may be in that somebody's hands. It can put a FIFO, a link, a
directory or gigabytes of brackets where its result is expected; none of that may stop, crash or bloat the host.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from kedro_hone.core.values.base import Json

LARGEST_REPLY: Final = 64 << 20
"""Bytes of a ``result.json``, or of one reply of a session: a hundred times what any toolchain of ours sends."""
DEEPEST_REPLY: Final = 64
"""How deep lists and objects may be in each other."""


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


def read_regular(path: Path, *, limit: int = LARGEST_REPLY) -> bytes:
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


def parse_object(text: bytes) -> dict[str, Json]:
    """Return a JSON object that is not too deep.

    Raises:
        ValueError: It is no JSON, another value, or too deep.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is deeper than {DEEPEST_REPLY} levels") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is no JSON object, but {type(value).__name__}")  # noqa: TRY004 - of a text
    level: list[Json] = [value]
    for _ in range(DEEPEST_REPLY):
        inner = (list(one.values()) if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [item for items in inner for item in items]
        if not level:
            return value
    raise ValueError(f"it is deeper than {DEEPEST_REPLY} levels")
