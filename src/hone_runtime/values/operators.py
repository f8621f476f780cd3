"""The value of an operator count: how many operators of a model run in which precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from pydantic import Field

from hone_runtime.values.base import Value

Precision = Literal["int4", "int8", "bf16", "fp16", "fp32", "other"]
"""The numbers that an operator computes with; ``other`` are conversions, and integers of 64 bits, booleans, text."""

PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
_MOST_KINDS: Final = 5  # of each precision
_LONGEST_NAME: Final = 64  # a worker may return names of any length


class Operators(Value):
    """The operators of one model at one shape."""

    id: str = Field(description="The candidate's id; `source` for the source model.")
    shape: str = Field(description="The recipe's name of the shape.")
    counts: dict[Precision, int] | None = Field(
        description="How many operators run in each precision, as the runtime executes them; None if not known."
    )
    kinds: dict[Precision, dict[str, int]] = Field(
        default_factory=dict, description="Of each precision, the five most frequent kinds of operators."
    )


def make_operators(name: str, shape: str, found: Mapping[str, Mapping[str, int]] | None) -> Operators:
    """Return the record of a model's operators at a shape.

    Args:
        name: The candidate's id.
        shape: The recipe's name of the shape.
        found: How many operators of each kind there are, by precision; None if not known.
    """
    if found is None:
        return Operators(id=name, shape=shape, counts=None)
    counts = {precision: sum(found[precision].values()) for precision in PRECISIONS if found.get(precision)}
    kinds = {precision: _select_frequent(found[precision]) for precision in counts}
    return Operators(id=name, shape=shape, counts=counts, kinds=kinds)


def _select_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_KINDS]
    return {kind[:_LONGEST_NAME]: count for kind, count in pairs}
