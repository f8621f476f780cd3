"""Whether a model quantizes its activations or rounds, by the operators in its description."""

from __future__ import annotations

from hone_runtime.conversion.quantization import quantizes, rounds
from hone_runtime.values.artifact import Artifact


def quantizes_activations(source: Artifact) -> bool:
    """Return whether a model quantizes its activations, and not only its weights, which do not change."""
    return any(map(quantizes, _list_names(source)))


def rounds_values(source: Artifact) -> bool:
    """Return whether a model has operators that quantize or round.

    At a threshold of rounding, small differences become large.
    """
    return any(map(rounds, _list_names(source)))


def _list_names(source: Artifact) -> list[str]:
    listed = source.metadata.get("operators")
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
