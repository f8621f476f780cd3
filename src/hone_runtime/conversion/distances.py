"""Distances between a converted model's outputs and its source's, row by row, in units of the allowed fp32 error.

It runs in workers, and imports NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-3
"""Allowed difference of a number from the source's if a model is only converted, as a share of its scale.

The scale is the range of the source's numbers here, and their unit in the comparisons of a search."""
FP32_ERROR = 1e-5
"""Additional allowed difference, as a share of the number itself: the error of fp32."""


def measure(wanted: Array, *, by_column: bool) -> tuple[Array, Array]:
    """Return the range of numbers and its midpoint, as arrays that broadcast to a row: overall, or for each column.

    If all numbers are equal, the range is their absolute value; for zeros it is 1.
    """
    if wanted.dtype.kind not in "fc":
        return np.zeros(()), np.zeros(())
    table = wanted.reshape(len(wanted), -1) if wanted.ndim else wanted.reshape(1, 1)
    finite = np.where(np.isfinite(table), table, np.nan).astype(np.float64)
    axis = 0 if by_column else None
    with np.errstate(all="ignore"):
        low, high = np.nanmin(finite, axis=axis), np.nanmax(finite, axis=axis)
    middle = np.nan_to_num((low + high) / 2)
    extent = np.nan_to_num(high - low)
    extent = np.where(extent > 0, extent, np.where(middle != 0, np.abs(middle), 1.0))
    return np.asarray(extent), np.asarray(middle)


def find_distances(
    wanted: Array, made: Array, scale: tuple[Array, Array], *, rows: int
) -> tuple[Array, Callable[[str, int], str]]:
    """Return the distance of each row, in units of the allowed difference, and a function that describes a row.

    The arrays have equal shapes. Equal infinities have distance 0, and so have two NaN. A row in which other numbers of
    the source are not finite has distance 0 too, since it is no fair test. If an output does not have one row for each
    row of the inputs, all rows get the same distance.
    """
    shared = not (wanted.ndim and len(wanted) == rows)
    left, right = (one.reshape(1 if shared else rows, -1) for one in (wanted, made))
    apart = _measure_numbers(left, right, scale) if left.dtype.kind in "fc" else _measure_others(left, right)
    distances = apart.max(axis=1) if apart.shape[1] else np.zeros(len(apart))

    def describe(name: str, at: int) -> str:
        row = 0 if shared else at
        place = int(apart[row].argmax())
        index = np.unravel_index(place, wanted.shape if shared else wanted.shape[1:]) if apart.shape[1] > 1 else ()
        named = f"{name}[{', '.join(str(int(one)) for one in index)}]" if len(index) else name
        return (
            f"{named} is {_show(left[row, place])} by the source, and {_show(right[row, place])} by the converted model"
        )

    return (np.repeat(distances, rows) if shared else distances), describe


def find_ties(scores: Array, *, rounding: float = FP32_ERROR) -> Array:
    """Return the rows whose two largest numbers are equal up to ``rounding``, a share of the largest."""
    if scores.ndim != 2 or scores.shape[1] < 2:
        return np.zeros(len(scores), bool)
    second, first = np.sort(scores, axis=1)[:, -2:].T.astype(np.float64)
    return np.asarray(first - second <= rounding * np.abs(first))


def has_ties(outputs: Iterable[Array], *, rounding: float = FP32_ERROR) -> bool:
    """Return whether an output has scores, rows first, with a tie for the largest in every row of at least two."""
    scores = (one.reshape(len(one), -1) for one in outputs if one.dtype.kind == "f" and one.ndim and len(one) > 1)
    return any(bool(find_ties(one, rounding=rounding).all()) for one in scores)


def is_like(numbers: Array, least: int, largest: int) -> bool:
    """Return whether integers exceed the usual range by no more than its width."""
    span = max(largest - least, 1)
    return least - span <= int(numbers.min()) and int(numbers.max()) <= largest + span


def _measure_numbers(left: Array, right: Array, scale: tuple[Array, Array]) -> Array:
    extent, middle = scale
    with np.errstate(all="ignore"):
        allowed = TOLERANCE * np.maximum(extent, np.abs(left - middle)) + FP32_ERROR * np.abs(left)
        apart = np.abs(right - left.astype(np.float64)) / allowed
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    fair = (np.isfinite(left) | same).all(axis=1, keepdims=True)
    return np.where(fair & ~same, np.where(np.isfinite(apart), apart, np.inf), 0.0)


def _measure_others(left: Array, right: Array) -> Array:
    """Return infinity where values other than fractions differ: integers, booleans or text."""
    if left.dtype.kind in "OUS":
        left, right = left.astype(str), right.astype(str)
    return np.where(left == right, 0.0, np.inf)


def _show(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating) else repr(value.item() if hasattr(value, "item") else value)
