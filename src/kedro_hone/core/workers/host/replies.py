"""Reads the replies and files of a worker without trusting them: only regular files, limited in size and depth.

A worker runs a toolchain on a model of unknown origin, and that model's author may control it. It can write a FIFO, a
link, a directory or gigabytes of brackets instead of its result; none of that may block, crash or bloat the host.
"""

from __future__ import annotations

import json
from typing import Final

from hone_runtime.values.base import Json
from hone_runtime.values.regular import LARGEST_FILE

LARGEST_REPLY: Final = LARGEST_FILE
"""Bytes of a ``result.json``, or of one reply of a session: a hundred times the largest of any toolchain of ours."""
DEEPEST_REPLY: Final = 64
"""How deeply lists and objects may be nested."""


def parse_object(text: bytes) -> dict[str, Json]:
    """Return a JSON object that is not nested too deeply.

    Raises:
        ValueError: It is not JSON, another value, or nested too deeply.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is deeper than {DEEPEST_REPLY} levels") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is not a JSON object, but {type(value).__name__}")  # noqa: TRY004 - of a text
    level: list[Json] = [value]
    for _ in range(DEEPEST_REPLY):
        inner = (list(one.values()) if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [item for items in inner for item in items]
        if not level:
            return value
    raise ValueError(f"it is deeper than {DEEPEST_REPLY} levels")
