"""The outputs that no metric reads, in which a candidate must nevertheless agree."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hone_runtime.values.unscored import Unscored
from kedro_hone.search.comparison.agreement import Difference


def list_unscored(found: Mapping[str, Sequence[Difference]], scored: Collection[str]) -> tuple[Unscored, ...]:
    """Return how each output that no metric reads differs, at the batch size or shape with the largest difference."""
    worst: dict[str, Difference] = {}
    for one in (one for differences in found.values() for one in differences if one.output not in scored):
        if one.output not in worst or _rank(one) > _rank(worst[one.output]):
            worst[one.output] = one
    return tuple(Unscored(output=one.output, largest=one.largest, rows=one.rows, of=one.of) for one in worst.values())


def _rank(difference: Difference) -> tuple[float, float]:
    return difference.rows / max(difference.of, 1), difference.largest
