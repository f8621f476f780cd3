"""Which source formats there are: those in ``sources/formats``, those of other packages, and the project's own."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kedro_hone.core.contract.entry_points import list_entry_points
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Format, Json
from kedro_hone.sources import formats
from kedro_hone.sources.flavor import Flavor
from kedro_hone.sources.source_format import THREADS, SourceFormat

ENTRY_POINTS: Final = "kedro_hone.sources"
"""The entry-point group of other distributions; each entry point names a ``SourceFormat``."""

# Registered by the user's settings.py while it is imported, hence a module-level list (see core.contract.catalogue).
_REGISTERED: list[SourceFormat] = []


@dataclass(frozen=True, kw_only=True)
class Sources:
    """All source formats.

    Attributes:
        formats: In the order in which they are asked.
        broken: What could not be imported: its name to the reason.
    """

    formats: tuple[SourceFormat, ...]
    broken: Mapping[str, str]

    def find_format(self, form: Format) -> SourceFormat | None:
        """Return the source format that becomes artifacts of a format.

        Args:
            form: The artifact's format.

        Returns:
            The one of the same name, else the first in order; None when there is none.
        """
        found = [source for source in self.formats if form in source.seals]
        return next((source for source in found if source.name == form), found[0] if found else None)


def register(source: SourceFormat) -> SourceFormat:
    """Add a source format of your own, from the ``settings.py`` of a Kedro project or any module that it imports.

    Registering the same again changes nothing, so settings may be imported twice.

    Args:
        source: The source format.

    Returns:
        The source format, unchanged.

    Raises:
        HoneError: ``source-format-taken``: another registered one has its name. A name that is built in or another
            package's is found when a model is pulled.
        TypeError: It is no source format.
    """
    _merge([(known, "register()") for known in (*_REGISTERED, _check(source))])
    _REGISTERED[:] = [known for known in _REGISTERED if known.name != source.name] + [source]
    return source


def forget_registrations() -> None:
    """Drop what ``register`` added, for tests and for reloading a project in a notebook."""
    _REGISTERED.clear()


def read_sources() -> Sources:
    """Return all source formats. Imports happen here, not before.

    Returns:
        The source formats. What other packages offer and cannot be imported is in ``broken``.

    Raises:
        HoneError: ``source-format-taken``, when two have one name.
    """
    offers = [(_check(module.SOURCE_FORMAT), "built in") for module in _import_builtin()]
    broken: dict[str, str] = {}
    for point, origin in list_entry_points(ENTRY_POINTS):
        try:
            offers.append((_check(point.load()), origin))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - another package's module may raise anything
            broken[f"{point.name} ({origin})"] = f"{type(error).__name__}: {error}"
    offers += [(source, "register()") for source in _REGISTERED]
    return Sources(formats=_merge(offers), broken=MappingProxyType(broken))


def name_source(flavor: Flavor) -> dict[str, Json]:
    """Return a note that names an artifact's source format, where the artifact's own format does not tell it.

    Args:
        flavor: What was found.

    Returns:
        ``source``, the name; nothing where ``describe_baseline`` finds the same sentence without it.
    """
    sources = read_sources()
    source = next((known for known in sources.formats if known.name == flavor.source), None)
    needed = source is not None and source.baseline and source != sources.find_format(flavor.format)
    return {"source": flavor.source} if needed else {}


def describe_baseline(source: Artifact, *, threads: int) -> str:
    """Return what candidates are measured against, as words that follow "measured against".

    Args:
        source: The source model.
        threads: How many threads it runs with.

    Returns:
        The sentence of its source format; the names of its runtime and format where that has none.
    """
    sources = read_sources()
    noted = source.metadata.get("source")
    named = next((known for known in sources.formats if known.name == noted), None)
    known = named or sources.find_format(source.format)
    sentence = known.baseline if known and known.baseline else f"{source.runtime} on {source.format}, {THREADS}"
    return sentence.replace(THREADS, "1 thread" if threads == 1 else f"{threads} threads")


def _import_builtin() -> Iterator[Any]:
    for module in pkgutil.iter_modules(formats.__path__):
        yield importlib.import_module(f"{formats.__name__}.{module.name}")


def _check(value: Any) -> SourceFormat:
    if not isinstance(value, SourceFormat):
        raise TypeError(f"{value!r} is a {type(value).__name__}, not a SourceFormat")
    return value


def _merge(offers: list[tuple[SourceFormat, str]]) -> tuple[SourceFormat, ...]:
    """Sort by ``order``, then by name. Of a format that was imported twice, the newer is kept."""
    found: dict[str, tuple[SourceFormat, str]] = {}
    for source, origin in offers:
        other, first = found.get(source.name, (source, origin))
        if _locate(other) != _locate(source):
            raise HoneError(
                "source-format-taken",
                f"Two source formats are named {source.name!r}.",
                why=f"One comes from {first} ({_locate(other)}), another from {origin} ({_locate(source)}).",
                hint="Rename one of them, or uninstall the package that you do not need.",
            )
        found[source.name] = (source, first)
    return tuple(sorted((source for source, _ in found.values()), key=lambda source: (source.order, source.name)))


def _locate(source: SourceFormat) -> str:
    """Return where a source format's function is defined: it stays the same when its module is imported again."""
    return f"{source.detect.__module__}.{source.detect.__qualname__}"
