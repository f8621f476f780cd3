"""Takes ever more memory in a child that has left its session."""

from __future__ import annotations

import os
from typing import Any


def transform(job: dict[str, Any]) -> None:
    """Fork, and let the child touch memory until somebody ends it."""
    child = os.fork()
    if child == 0:
        os.setsid()
        pieces = []
        while job:
            pieces.append(b"\x01" * (64 << 20))
    os.waitpid(child, 0)
