"""What other distributions offer by entry point, and which package offers it; and whose a name is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
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
    for point in metadata.entry_points(group=group):
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
