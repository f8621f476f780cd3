"""Which source formats there are: those in ``sources/formats``, those of other packages, and the project's own."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Final

from kedro_hone.core.contract.entry_points import list_entry_points, merge, name_function
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Format, Json
from kedro_hone.sources import formats
from kedro_hone.sources.source_format import THREADS, Flavor, SourceFormat

ENTRY_POINTS: Final = "kedro_hone.sources"
"""The entry-point group of other distributions; each entry point names a ``SourceFormat``."""

_BUILT_IN: Final = "built in"
_OWN: Final = "register()"

# Registered by the user's settings.py while it is imported, hence a module-level list (see core.contract.catalogue).
_REGISTERED: list[SourceFormat] = []


@dataclass(frozen=True, kw_only=True)
class Sources:
    """All source formats.

    Attributes:
        formats: In the order in which they are asked.
        broken: The reason for each that could not be imported.
        strangers: Where each that is not built in comes from, by its name.
    """

    formats: tuple[SourceFormat, ...]
    broken: Mapping[str, str]
    strangers: Mapping[str, str] = field(default_factory=dict)

    def find_named(self, name: object) -> SourceFormat | None:
        """Return the source format of a name."""
        return next((source for source in self.formats if source.name == name), None)

    def find_format(self, form: Format) -> SourceFormat | None:
        """Return the source format that becomes artifacts of a format: that of the same name, else the first."""
        found = [source for source in self.formats if form in source.seals]
        return next((source for source in found if source.name == form), found[0] if found else None)


def register(source: SourceFormat) -> SourceFormat:
    """Add a source format of your own, from the ``settings.py`` of a Kedro project or any module that it imports.

    Registering the same again changes nothing, so settings may be imported twice.

    Returns:
        The source format, unchanged.

    Raises:
        HoneError: ``source-format-taken``: another registered one has its name. A name that is built in or another
            package's is found when a model is pulled.
        TypeError: It is no source format.
    """
    _merge((), (*_REGISTERED, _check(source)))
    _REGISTERED[:] = [known for known in _REGISTERED if known.name != source.name] + [source]
    return source


def forget_registrations() -> None:
    """Drop what ``register`` added, for tests and for reloading a project in a notebook."""
    _REGISTERED.clear()


def read_sources() -> Sources:
    """Return all source formats. Imports happen here, not before; what other packages offer may be ``broken``.

    Raises:
        HoneError: ``source-format-taken``, when two have one name.
    """
    builtin = [importlib.import_module(f"{formats.__name__}.{found.name}") for found in iter_modules(formats.__path__)]
    offers = [(_check(module.SOURCE_FORMAT), _BUILT_IN) for module in builtin]
    broken: dict[str, str] = {}
    for point, origin in list_entry_points(ENTRY_POINTS):
        try:
            offers.append((_check(point.load()), origin))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - another package's module may raise anything
            broken[f"{point.name} ({origin})"] = f"{type(error).__name__}: {error}"
    found = _merge(offers, _REGISTERED)
    origins = {source.name: _OWN for source in _REGISTERED} | {source.name: origin for source, origin in offers}
    strangers = {name: origin for name, origin in origins.items() if origin != _BUILT_IN}
    return Sources(formats=found, broken=MappingProxyType(broken), strangers=MappingProxyType(strangers))


def name_source(flavor: Flavor) -> dict[str, Json]:
    """Return a note ``source`` that names an artifact's source format, where its own format does not tell it.

    It is empty where ``describe_baseline`` finds the same sentence without it.
    """
    sources = read_sources()
    source = sources.find_named(flavor.source)
    needed = source and source.baseline and source != sources.find_format(flavor.format)
    return {"source": flavor.source} if needed else {}


def describe_baseline(source: Artifact, *, threads: int) -> str:
    """Return what candidates are measured against, as words that follow "measured against".

    It is the sentence of the source model's format, or names its runtime and format where that has none.
    """
    sources = read_sources()
    known = sources.find_named(source.metadata.get("source")) or sources.find_format(source.format)
    sentence = known.baseline if known and known.baseline else f"{source.runtime} on {source.format}, {THREADS}"
    return sentence.replace(THREADS, "1 thread" if threads == 1 else f"{threads} threads")


def _check(value: Any) -> SourceFormat:
    if not isinstance(value, SourceFormat):
        raise TypeError(f"{value!r} is a {type(value).__name__}, not a SourceFormat")
    return value


def _merge(offers: Iterable[tuple[SourceFormat, str]], registered: Iterable[SourceFormat]) -> tuple[SourceFormat, ...]:
    """Sort by ``order``, then by name."""
    found = merge(
        _name_places(offers),
        _name_places((source, _OWN) for source in registered),
        slug="source-format-taken",
        noun="source format",
        identify=lambda source: name_function(source.detect),
    )
    return tuple(sorted(found.values(), key=lambda source: (source.order, source.name)))


def _name_places(offers: Iterable[tuple[SourceFormat, str]]) -> list[tuple[SourceFormat, str]]:
    return [(source, f"{origin} ({name_function(source.detect)})") for source, origin in offers]
