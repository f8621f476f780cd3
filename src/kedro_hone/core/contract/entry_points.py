"""What other distributions offer by entry point, and which package offers it; and whose a name is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
    offers: Iterable[tuple[_Plugin, str]],
    registered: Iterable[tuple[_Plugin, str]],
    *,
    slug: str,
    noun: str,
    identify: Callable[[_Plugin], object],
) -> dict[str, _Plugin]:
    """Return what is offered by its name, in the order of the offers.

    Args:
        offers: What is built in or installed, each with where it comes from, in words. A name belongs to the first;
            only the very same value may be offered under it again.
        registered: What the project registered, likewise. It may replace what it registered before, and nothing else:
            after a notebook has reloaded the project its functions are the ones that were edited.
        slug: Of the error.
        noun: What they are, such as ``gate``.
        identify: Returns what stays equal when the project's modules are reloaded.

    Raises:
        HoneError: Two that are not the same have one name.
    """
    found: dict[str, tuple[_Plugin, str]] = {}
    own: set[str] = set()
    for value, origin, is_own in (*((*offer, False) for offer in offers), *((*offer, True) for offer in registered)):
        if value.name not in found:
            found[value.name] = (value, origin)
            own |= {value.name} if is_own else set()
            continue
        other, first = found[value.name]
        if is_own and value.name in own and identify(other) == identify(value):
            found[value.name] = (value, first)
        elif other is not value and other != value:
            raise HoneError(
                slug,
                f"Two {noun}s are named {value.name!r}.",
                why=f"One comes from {first}, another from {origin}.",
                hint="Rename one of them, or uninstall the package that you do not need.",
            )
    return {name: value for name, (value, _) in found.items()}


def name_function(function: Callable[..., Any]) -> str:
    """Return where a function is defined, ``module.name``; a callable object is named by its class."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _list_places() -> tuple[tuple[str, int], ...]:
    """Every folder of packages and when it last changed: an installation changes one of them."""
    folders = (Path(place or ".") for place in sys.path)
    return tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders if folder.is_dir())


@lru_cache(maxsize=16)
def _read(group: str, places: tuple[tuple[str, int], ...]) -> metadata.EntryPoints:  # noqa: ARG001 - a part of the key
    """Read the files of all distributions: tens of milliseconds, and a run asks for every worker that it starts."""
    return metadata.entry_points(group=group)
