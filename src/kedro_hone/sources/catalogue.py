"""The source formats: those in ``sources/formats``, those of other packages, and the project's own."""

from __future__ import annotations

from functools import partial
from typing import Final

from hone_runtime.contract.plugins import (
    BUILT_IN,
    Offer,
    Plugins,
    check_kind,
    list_modules,
    list_offers,
    load,
    locate_function,
)
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format, Json
from kedro_hone.sources.source_format import THREADS, Flavor, SourceFormat

ENTRY_POINTS: Final = "kedro_hone.sources"
"""The entry-point group of other distributions; each entry point names a ``SourceFormat``."""


_PLUGINS: Final = Plugins[SourceFormat](
    slug="source-format-taken",
    clash="Two source formats are named {name!r}.",
    locate=lambda source: locate_function(source.detect),
)


def register(source: SourceFormat) -> SourceFormat:
    """Add a source format of your own, from the ``settings.py`` of a Kedro project or any module that it imports.

    Registering the same again changes nothing, so settings may be imported twice. It is returned unchanged.

    Raises:
        HoneError: ``source-format-taken``: another registered one has its name. A name of a built-in format or of
            another package's is detected when a model is pulled.
        TypeError: It is not a source format.
    """
    _PLUGINS.register(check_kind(source, SourceFormat))
    return source


forget_registrations = _PLUGINS.own.clear
"""Removes the formats that ``register`` added, for tests and for reloading a project in a notebook."""


def read_sources() -> tuple[dict[str, tuple[SourceFormat, Offer]], dict[str, BaseException]]:
    """Return all source formats by name, with their origins, in the order in which they are tried.

    Imports happen here, not before. The second value contains failed imports: the exception by origin.

    Raises:
        HoneError: ``source-format-taken``, if two have the same name.
    """
    offers = list_offers(ENTRY_POINTS, list_modules("kedro_hone.sources.formats", "SOURCE_FORMAT"))
    found, broken = load(offers, partial(check_kind, kind=SourceFormat))
    for offer in offers:
        if offer.origin == BUILT_IN and str(offer) in broken:  # our own bug: no other format must take the model
            raise broken[str(offer)]
    ordered = sorted(_PLUGINS.merge(found).items(), key=lambda item: (item[1][0].order, item[0]))
    return dict(ordered), broken


def note_source(flavor: Flavor) -> dict[str, Json]:
    """Return a note ``source`` with an artifact's source format, if its own format does not determine it.

    It is empty if ``describe_baseline`` returns the same sentence without it.
    """
    source, other = _find(flavor.source, flavor.format), _find(None, flavor.format)
    return {"source": flavor.source} if source and source.baseline and source != other else {}


def describe_baseline(source: Artifact, *, threads: int) -> str:
    """Return a description of the source as it is measured, as words that follow "measured against".

    It is the sentence of the source model's format, or otherwise its runtime and format.
    """
    known = _find(source.metadata.get("source"), source.format)
    sentence = known.baseline if known and known.baseline else f"{source.runtime} on {source.format}, {THREADS}"
    return sentence.replace(THREADS, "1 thread" if threads == 1 else f"{threads} threads")


def _find(name: object, form: Format) -> SourceFormat | None:
    """Return the source format of a name; otherwise one that becomes this format, preferably of the same name."""
    formats = {known: source for known, (source, _) in read_sources()[0].items()}
    found = {known: source for known, source in formats.items() if form in source.seals}
    return formats.get(str(name)) or found.get(form) or next(iter(found.values()), None)
