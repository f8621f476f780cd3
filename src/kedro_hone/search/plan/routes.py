"""Whether a route of adaptors only converts a model."""

from __future__ import annotations

from collections.abc import Iterable

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact, Precision, Stage
from kedro_hone.search.comparison.quantization import quantizes_activations


def only_converts(route: Iterable[str]) -> bool:
    """Return whether no adaptor of a route changes the computation, except for rounding in fp32.

    A runtime for fp32 and int8 computes in the precision of the graph.
    """
    known = read_catalogue().adaptors
    adaptors = [known[name] for name in route if name in known]
    return all(
        each.stage is not Stage.COMPRESS and Precision.FP32 in each.precisions <= {Precision.FP32, Precision.INT8}
        for each in adaptors
    )


def must_agree(route: Iterable[str], source: Artifact) -> bool:
    """Return whether a route must return the same as its source, row by row: it only converts.

    If a source quantizes its activations, each rounding error near a threshold becomes a step, so no conversion can.
    """
    return only_converts(route) and not quantizes_activations(source)
