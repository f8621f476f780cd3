"""What other distributions offer by entry point, and which package offers it; and whose a name is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Protocol, TypeVar

from kedro_hone.core.errors import HoneError


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Plugin = TypeVar("_Plugin", bound=_Named)


def list_entry_points(group: str) -> Iterator[tuple[metadata.EntryPoint, str]]:
    """Yield the entry points of a group; nothing is imported.

    Args:
        group: Such as ``kedro_hone.gates``.

    Yields:
        Each entry point, and in words where it comes from.
    """
    for point in _read(group, _list_places()):
        yield point, f"the package {point.dist.name if point.dist else 'unknown'}"


def merge(
    offers: Iterable[tuple[_Plugin, str]], *, slug: str, identify: Callable[[_Plugin], object]
) -> dict[str, _Plugin]:
    """Return what is offered by its name, in the order of the offers.

    Args:
        offers: Each with where it comes from, in words.
        slug: Of the error.
        identify: Returns what stays equal when a module is reloaded. The same twice is no collision: the newer one is
            kept, since after a notebook has reloaded the project its functions are the ones that were edited.

    Raises:
        HoneError: Two that are not the same have one name.
    """
    found: dict[str, tuple[_Plugin, str]] = {}
    for value, origin in offers:
        other, first = found.get(value.name, (value, origin))
        if identify(other) != identify(value):
            raise HoneError(
                slug,
                f"Two {type(value).__name__.lower()}s are named {value.name!r}.",
                why=f"One comes from {first}, another from {origin}.",
                hint="Rename one of them, or uninstall the package that you do not need.",
            )
        found[value.name] = (value, first)
    return {name: value for name, (value, _) in found.items()}


def _list_places() -> tuple[tuple[str, int], ...]:
    """Every folder of packages and when it last changed: an installation changes one of them."""
    folders = (Path(place or ".") for place in sys.path)
    return tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders if folder.is_dir())


@lru_cache(maxsize=16)
def _read(group: str, places: tuple[tuple[str, int], ...]) -> metadata.EntryPoints:  # noqa: ARG001 - a part of the key
    """Read the files of all distributions: tens of milliseconds, and a run asks for every worker that it starts."""
    return metadata.entry_points(group=group)
