"""What a worker sends or leaves behind, read without trusting it: regular files only, bounded in size and depth.

A worker runs a toolchain on somebody's model, and may be in that somebody's hands. It can put a FIFO, a link, a
directory or gigabytes of brackets where its result is expected; none of that may stop, crash or bloat the host.
"""

from __future__ import annotations

import json
from typing import Final

from hone_runtime.values.base import Json
from hone_runtime.values.regular import LARGEST_FILE

LARGEST_REPLY: Final = LARGEST_FILE
"""Bytes of a ``result.json``, or of one reply of a session: a hundred times what any toolchain of ours sends."""
DEEPEST_REPLY: Final = 64
"""How deep lists and objects may be in each other."""


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
