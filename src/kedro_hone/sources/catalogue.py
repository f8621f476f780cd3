"""Which source formats there are: those in ``sources/formats``, those of other packages, and the project's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from kedro_hone.core.plugins import Offer, Plugins, check_kind, list_modules, list_offers, load, name_function
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Format, Json
from kedro_hone.sources.source_format import THREADS, Flavor, SourceFormat

ENTRY_POINTS: Final = "kedro_hone.sources"
"""The entry-point group of other distributions; each entry point names a ``SourceFormat``."""


def _locate(source: SourceFormat) -> str:
    return name_function(source.detect)


_PLUGINS: Final = Plugins[SourceFormat](
    slug="source-format-taken", clash="Two source formats are named {name!r}.", locate=_locate, identify=_locate
)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """All source formats.

    Attributes:
        offers: Each by its name with its place, in the order in which they are asked.
        broken: What those raised that could not be imported, by their places.
    """

    offers: Mapping[str, tuple[SourceFormat, Offer]]
    broken: Mapping[str, BaseException]

    @property
    def formats(self) -> tuple[SourceFormat, ...]:
        """The formats in the order in which they are asked."""
        return tuple(source for source, _ in self.offers.values())

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
    _PLUGINS.register(check_kind(source, SourceFormat))
    return source


def forget_registrations() -> None:
    """Drop what ``register`` added, for tests and for reloading a project in a notebook."""
    _PLUGINS.own.clear()


def read_sources() -> Sources:
    """Return all source formats. Imports happen here, not before; what cannot be imported is ``broken``.

    Raises:
        HoneError: ``source-format-taken``, when two have one name.
    """
    offers = list_offers(ENTRY_POINTS, list_modules("kedro_hone.sources.formats", "SOURCE_FORMAT"))
    found, broken = load(offers, partial(check_kind, kind=SourceFormat))
    ordered = sorted(_PLUGINS.merge(found).items(), key=lambda item: (item[1][0].order, item[0]))
    return Sources(offers=dict(ordered), broken=broken)


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
