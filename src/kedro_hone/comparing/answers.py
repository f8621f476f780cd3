"""What a source returns for one row in several calls, and whether a candidate is within what these differ by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.comparing.differences import measure_errors

Array = NDArray[Any]
Answers = Mapping[int, Sequence[Array]]
"""What the source returned for rows of an output in other calls than the reference's, by their places."""

FACTOR: Final = 2.0
"""A candidate may be so many times as far from the nearest answer as the answers are from one another."""


def find_accepted(
    want: Array, got: Array, answers: Answers, *, rounding: float, noise: Array | None = None
) -> tuple[list[int], float]:
    """Return the rows in which an output is within what the source's own answers differ by, and its largest error.

    Of numbers, the distance from the nearest answer counts; a class or a text has to be one of the answers.

    Args:
        want: The reference's output, rows first.
        got: A candidate's, of the same shape.
        answers: The source's other answers.
        rounding: What an output may differ by in any row, over its unit.
        noise: As in ``measure_errors``.

    Returns:
        The rows, and their largest difference from the reference, over its largest value; 0 for text and classes.
    """
    places = [place for place in answers if place < len(want)]
    nearest = measure_errors(want, got, noise=noise)
    spread = np.zeros(len(want))
    for number in range(max((len(answers[place]) for place in places), default=0)):
        other = replace_rows(want, {place: answers[place][min(number, len(answers[place]) - 1)] for place in places})
        spread = np.maximum(spread, measure_errors(want, other, noise=noise).max(axis=1, initial=0.0))
        nearest = np.minimum(nearest, measure_errors(other, got, noise=noise))
    floating = want.dtype.kind in "fc"
    allowed = np.maximum(rounding, FACTOR * np.where(np.isfinite(spread), spread, 0.0)) if floating else spread * 0
    accepted = [place for place in places if nearest[place].max(initial=0.0) <= allowed[place]]
    return accepted, _measure_largest(want, got, accepted) if floating else 0.0


def list_varying(want: Array, answers: Answers, *, bound: float, noise: Array | None = None) -> list[int]:
    """Return the rows of which some number has three or more answers, beyond a bound: they vary with the neighbours.

    A step, such as the choice of an expert, has two sides.
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
    """Return a copy of an array with other rows."""
    kind = (
        np.result_type(array.dtype, *(row.dtype for row in rows.values())) if array.dtype.kind == "U" else array.dtype
    )
    made = array.astype(kind)
    for place, row in rows.items():
        made[place] = row
    return made


def _measure_largest(want: Array, got: Array, places: Sequence[int]) -> float:
    finite = np.abs(want[np.isfinite(want)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        apart = np.abs(got[[*places]] - want[[*places]]).astype(np.float64)
    return float(apart[np.isfinite(apart)].max(initial=0.0) / (finite or 1.0))
