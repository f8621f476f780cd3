"""What a route of adaptors does to a model: whether it only converts it."""

from __future__ import annotations

from collections.abc import Iterable

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact, Precision, Stage
from kedro_hone.search.comparison.quantization import quantizes_activations


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
