"""Which adaptors convert a source format to a backend's format: from the descriptions of both."""

from __future__ import annotations

from collections.abc import Iterable

from generated.models import make_table
from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Stage
from hone_runtime.values.base import BACKENDS
from kedro_hone.sources.catalogue import read_sources

COLUMNS = (*BACKENDS, "openvino-ir")


def list_conversions() -> str:
    """Return a row for each source format, with its converters to each backend, or why there is none."""
    converters = [each for each in read_catalogue().adaptors.values() if each.stage is Stage.CONVERT]
    rows = []
    for source, _ in read_sources()[0].values():
        for form in sorted(source.seals) or ["any"]:
            cells = [describe_cell(form, column, converters) for column in COLUMNS]
            if source.unsupported:
                cells = [f"not taken: {source.unsupported}", *("" for _ in COLUMNS[1:])]
            rows.append((f"`{source.name}`: {source.noun}", *cells))
    return make_table(rows, "source", *(f"`{column}`" for column in COLUMNS))


def describe_cell(form: str, backend: str, converters: Iterable[Adaptor]) -> str:
    """Return the chains of converters from a format to a backend's, or the reason why there is none."""
    if form == backend:
        return "as it is"
    if form == "any":
        return "as what was published"
    chains = find_chains(form, backend, tuple(converters))
    if not chains:
        made = {each.produces for each in converters}
        return "no adaptor writes it" if backend not in made else f"no adaptor from `{form}`"
    return "; or ".join(" ▸ ".join(f"[{name}](../adaptors/{name}.md)" for name in chain) for chain in chains)


def find_chains(form: str, backend: str, converters: tuple[Adaptor, ...]) -> list[tuple[str, ...]]:
    """Return every chain of converters, the shortest first, in the catalogue's order.

    No format occurs twice in a chain. An alternative converter only starts from the source, and nothing follows it.
    """
    chains: list[tuple[str, ...]] = []
    paths: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((form,), ())]
    while paths:
        formats, names = paths.pop(0)
        for each in converters:
            if formats[-1] in each.accepts and each.produces not in formats and not (names and each.alternative):
                longer = (*names, each.name)
                if each.produces == backend:
                    chains.append(longer)
                elif not each.alternative:
                    paths.append(((*formats, each.produces), longer))
    return chains
