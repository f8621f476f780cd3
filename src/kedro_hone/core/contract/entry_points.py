"""What other distributions offer by entry point, and which package offers it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata


def list_entry_points(group: str) -> Iterator[tuple[metadata.EntryPoint, str]]:
    """Yield the entry points of a group; nothing is imported.

    Args:
        group: Such as ``kedro_hone.gates``.

    Yields:
        Each entry point, and in words where it comes from.
    """
    for point in metadata.entry_points(group=group):
        yield point, f"the package {point.dist.name if point.dist else 'unknown'}"
