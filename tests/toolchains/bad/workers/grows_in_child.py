"""Allocates memory without end in a child process with a session of its own."""

from __future__ import annotations

import os
from typing import Any


def transform(job: dict[str, Any]) -> None:
    """Fork, and let the child touch memory until it is killed."""
    child = os.fork()
    if child == 0:
        os.setsid()
        pieces = []
        while job:
            pieces.append(b"\x01" * (64 << 20))
    os.waitpid(child, 0)
