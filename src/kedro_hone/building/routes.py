"""What a route of adaptors does to a model, and what the memory calls it and its options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kedro_hone.comparing.source_company import quantizes_activations
from kedro_hone.core.contract.adaptor import Options
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.values.artifact import Artifact, Precision, Stage
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.digest import digest_code, digest_file, digest_json

Changes = Mapping[str, Mapping[str, Json]]
"""Options of adaptors, by their names, that are other ones than the recipe's."""
NO_CHANGES: Final[Changes] = MappingProxyType({})


def only_converts(route: Iterable[str]) -> bool:
    """Return whether no adaptor of a route changes what is computed, but for rounding in fp32.

    A runtime of fp32 and int8 computes in whichever the graph is.
    """
    known = read_catalogue().adaptors
    adaptors = [known[name] for name in route if name in known]
    return all(
        each.stage is not Stage.COMPRESS and Precision.FP32 in each.precisions <= {Precision.FP32, Precision.INT8}
        for each in adaptors
    )


def must_agree(route: Iterable[str], source: Artifact) -> bool:
    """Return whether a route must return what its source does, row by row: it only converts.

    A source that quantizes its activations turns each rounding near a border into a step, so that no conversion can.
    """
    return only_converts(route) and not quantizes_activations(source)


def is_usual(route: Iterable[str]) -> bool:
    """Return whether all adaptors of a route are of the default toolchains."""
    known = read_catalogue().adaptors
    return all(name in known and known[name].toolchain.default for name in route)


def name_route(route: Iterable[str]) -> str:
    """Return the name of a route in the memory."""
    return ">".join(route)


@lru_cache(maxsize=4096)
def digest_versions(route: str) -> str:
    """Return what names the versions of a route, by its name in the memory: of its adaptors, their code and the locks.

    What was measured with others tells less; empty where nothing tells. A process reads each once.
    """
    known = read_catalogue().adaptors
    adaptors = [known[name] for name in route.split(">") if name in known]
    if not adaptors:
        return ""
    toolchains = {one.toolchain.name: one.toolchain for one in adaptors}.values()
    files = [(one.worker.parent, one.lock) for one in toolchains]
    made = [[digest_code(code), digest_file(lock) if lock.is_file() else ""] for code, lock in files]
    return digest_json([[one.version for one in adaptors], made])[: len("sha256:") + 16]


def describe_options(options: Options | None) -> str:
    """Return the options of an adaptor that differ from its defaults, as the memory names them."""
    return describe_changes(_find_changes(options)) if options is not None else ""


def drop_defaults(name: str, options: Mapping[str, Json]) -> dict[str, Json]:
    """Return the options of an adaptor that are not its defaults; all of one that is not installed."""
    adaptor = read_catalogue().adaptors.get(name)
    return dict(options) if adaptor is None else _find_changes(adaptor.options.model_validate(options))


def describe_changes(changes: Mapping[str, Json]) -> str:
    """Return changed options as the memory names them; an empty string where there are none."""
    return json.dumps(dict(changes), sort_keys=True) if changes else ""


def _find_changes(options: Options) -> dict[str, Json]:
    defaults, dumped = (one.model_dump(mode="json") for one in (type(options)(), options))
    return {name: value for name, value in dumped.items() if value != defaults[name]}
