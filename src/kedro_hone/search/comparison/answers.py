"""The results of a source for one row in several calls, and whether a candidate is within their differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.search.comparison.differences import measure_errors, measure_floats, measure_scale

Array = NDArray[Any]
Answers = Mapping[int, Sequence[Array]]
"""The source's results for rows of an output in calls other than the reference's, by index."""

FACTOR: Final = 2.0
"""How many times farther a number may be from one of these results than the reference is from the others."""


def find_accepted(
    want: Array, got: Array, answers: Answers, *, rounding: float, noise: Array | None = None
) -> tuple[list[int], float]:
    """Return the rows in which an output is within the differences of the source's results, and its largest error.

    A row is compared with each complete result. Each number must be close to the result's, relative to the differences
    of the results at this index. A row of classes or texts must equal one of the results.

    Args:
        want: The reference's output, rows first.
        got: A candidate's output, of the same shape.
        answers: The source's other results.
        rounding: The allowed difference of an output in any row, relative to its unit.
        noise: As in ``measure_errors``.

    Returns:
        The rows, and their largest difference from the reference, relative to its largest value; 0 for text and
        classes.
    """
    places = [place for place in answers if place < len(want)]
    if not places:
        return [], 0.0
    floating = want.dtype.kind in "fc"
    spread = np.zeros((len(places), want[0].size))
    for one in _combine_answers(want, answers, places):
        spread = np.maximum(spread, measure_errors(want, one, noise=noise)[places])
    comparable = floating & np.isfinite(spread).all(axis=1, keepdims=True)
    allowed = np.maximum(np.where(comparable, FACTOR * spread, 0.0), rounding if floating else 0.0)
    near = np.zeros(len(places), bool)
    for one in _combine_answers(want, answers, places):
        near |= (measure_errors(one, got, noise=noise)[places] <= allowed).all(axis=1)
    accepted = [place for place, is_near in zip(places, near, strict=True) if is_near]
    return accepted, _measure_largest(want, got, accepted) if floating else 0.0


def _combine_answers(want: Array, answers: Answers, places: Sequence[int]) -> Iterator[Array]:
    """Yield an output with each of the source's results in its rows, first the reference's; outputs may be large."""
    yield want
    for number in range(max(len(answers[place]) for place in places)):
        yield replace_rows(want, {place: answers[place][min(number, len(answers[place]) - 1)] for place in places})


def list_varying(want: Array, answers: Answers, *, bound: float, noise: Array | None = None) -> list[int]:
    """Return the rows with three or more results for some number, beyond a bound: they vary with the neighbours.

    A step, such as the choice of an expert, has only two sides.
    """
    count = min((len(each) for each in answers.values()), default=0)
    made = [
        want,
        *(replace_rows(want, {place: each[number] for place, each in answers.items()}) for number in range(count)),
    ]
    places = [*answers]
    fresh = [np.ones((len(places), want[0].size), bool) for _ in made]
    for first, second in combinations(range(len(made)), 2):
        fresh[second] &= measure_errors(made[first], made[second], noise=noise)[places] > bound
    distinct = np.sum(fresh, axis=0)
    return [place for place, most in zip(places, distinct.max(axis=1, initial=0), strict=True) if most > 2]


def replace_rows(array: Array, rows: Mapping[int, Array]) -> Array:
    """Return a copy of an array with some rows replaced."""
    kind = (
        np.result_type(array.dtype, *(row.dtype for row in rows.values())) if array.dtype.kind == "U" else array.dtype
    )
    made = array.astype(kind)
    for place, row in rows.items():
        made[place] = row
    return made


def _measure_largest(want: Array, got: Array, places: Sequence[int]) -> float:
    """Return the largest finite difference in some rows, relative to the largest value of the output without masks."""
    errors = measure_floats(want[[*places]], got[[*places]], measure_scale(want))
    return float(errors[np.isfinite(errors)].max(initial=0.0))
