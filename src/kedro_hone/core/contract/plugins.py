"""What is plugged in: by entry points of other distributions, or by a project's settings; and which name is whose."""

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
    """Yield each entry point of a group, such as ``kedro_hone.gates``, and in words where it comes from.

    Nothing is imported.
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
