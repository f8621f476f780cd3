"""What other distributions offer by entry point, and which package offers it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path


def list_entry_points(group: str) -> Iterator[tuple[metadata.EntryPoint, str]]:
    """Yield the entry points of a group; nothing is imported.

    Args:
        group: Such as ``kedro_hone.gates``.

    Yields:
        Each entry point, and in words where it comes from.
    """
    for point in _read(group, _list_places()):
        yield point, f"the package {point.dist.name if point.dist else 'unknown'}"


def _list_places() -> tuple[tuple[str, int], ...]:
    """Every folder of packages and when it last changed: an installation changes one of them."""
    folders = (Path(place or ".") for place in sys.path)
    return tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders if folder.is_dir())


@lru_cache(maxsize=16)
def _read(group: str, places: tuple[tuple[str, int], ...]) -> metadata.EntryPoints:  # noqa: ARG001 - a part of the key
    """Read the files of all distributions: tens of milliseconds, and a run asks for every worker that it starts."""
    return metadata.entry_points(group=group)
