"""Allocates memory without end, in pieces of 64 MB that it touches."""

from __future__ import annotations

from typing import Any


def transform(job: dict[str, Any]) -> None:
    """Touch memory until it is killed."""
    pieces = []
    while job:
        pieces.append(b"\x01" * (64 << 20))
