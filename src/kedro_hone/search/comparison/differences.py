"""How two results of one model for the same rows differ, row by row, without rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.programs.shared.parts import measure_units

_SHARE: Final = 0.02
"""The share of a row's numbers that may differ: if two are nearly equal, rounding decides which is larger."""
_WIDE: Final = 64
"""Narrow integers with at least this range are pixels or similar, not classes: they may differ by one."""
_LARGE: Final = 1e4
"""From this value numbers may be a mask's, if they are a hundred times larger than the others, which set the scale."""
_SAME: Final = 0.01
"""The numbers of a mask are equal up to this share; prices, for example, are not."""


@dataclass(frozen=True, kw_only=True)
class Discrepancy:
    """Where two results differ most, and in how many of the compared rows."""

    output: str
    row: int  # its index in the split
    one: str
    other: str
    rows: int
    compared: int

    def describe(self, first: str, second: str) -> str:
        """Return it as one sentence; ``first`` and ``second`` describe the origin of each result."""
        example = (
            f"{self.output!r} of row {self.row} of the search split is {self.one} {first}, and {self.other} {second}"
        )
        return f"{example}; {self.rows} of {self.compared} rows differ."


def find_discrepancy(
    name: str,
    one: NDArray[Any],
    other: NDArray[Any],
    *,
    places: Sequence[int],
    bound: float,
    least: float = 0.0,
    noise: NDArray[Any] | None = None,
) -> Discrepancy | None:
    """Return where two results of an output differ by more than a bound, or None.

    Args:
        name: The output's name.
        one: A result, rows first.
        other: The other result, of the same shape.
        places: The rows' indices in the split.
        bound: The allowed difference of numbers, relative to their unit (``measure_errors``).
        least: The least share of rows that must differ, at least two rows; if 0, any single row counts.
        noise: Which numbers of a row have the rounding error of larger ones, in the shape of a row; None if unknown.
    """
    if not one.size:
        return None
    errors = measure_errors(one, other, noise=noise)
    share = _SHARE if least else 0.0
    off = np.asarray((errors > bound).sum(axis=1) > share * errors.shape[1])
    count = int(off.sum())
    if count < (min(len(off), max(2, math.ceil(least * len(off)))) if least else 1):
        return None
    row, column = divmod(int(np.argmax(np.where(off[:, None], errors, -1.0))), errors.shape[1])
    values = [array.reshape(len(array), -1)[row, column] for array in (one, other)]
    pair = [_format(values, digits) for digits in (4, 9)]
    shown = pair[0] if len(set(pair[0])) > 1 else pair[1]
    return Discrepancy(output=name, row=places[row], one=shown[0], other=shown[1], rows=count, compared=len(off))


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """The allowed differences of results, by output: ``bound``, ``noise`` and ``least`` of ``find_discrepancy``."""

    bounds: Mapping[str, float]
    noise: Mapping[str, NDArray[Any]]
    least: float = 0.0


def find_first(
    one: Mapping[str, NDArray[Any]],
    other: Mapping[str, NDArray[Any]],
    *,
    places: Sequence[int],
    tolerance: Tolerance,
) -> Discrepancy | None:
    """Return the difference of the first output that differs, as in ``find_discrepancy``.

    An output that the other result lacks, or that has another shape there, is skipped.
    """
    for name, array in one.items():
        found = other.get(name)
        if found is None or found.shape != array.shape:
            continue
        bound, noise = tolerance.bounds[name], tolerance.noise.get(name)
        difference = find_discrepancy(
            name, array, found, places=places, bound=bound, least=tolerance.least, noise=noise
        )
        if difference:
            return difference
    return None


def measure_errors(one: NDArray[Any], other: NDArray[Any], *, noise: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Return how much each number of two results differs, as (rows, numbers).

    For floats the difference is relative to the unit of the first result's part (``measure_units``), or to the number
    itself if that is larger. Equal infinities do not differ, nor do NaN. Classes and values that are not numbers differ
    by 1 or 0. A part that is far smaller than the others has its own unit, except where ``noise``, in the shape of a
    row, is true.
    """
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        filled = np.where(np.isfinite(one), one, one.dtype.type(0))
        scale = measure_scale(one)
        units = measure_units(np.abs(filled) if filled.dtype.kind == "c" else filled, scale, noise=noise)
        return measure_floats(one, other, units).reshape(len(one), -1)
    one, other = (array.reshape(len(array), -1) for array in (one, other))
    unequal = one != other
    if are_pixels(one) and other.dtype.kind in "iu":
        unequal = np.abs(one.astype(np.float64) - other.astype(np.float64)) > 1
    return np.asarray(unequal, dtype=np.float64)


def are_pixels(values: NDArray[Any]) -> bool:
    """Return whether integers are pixels or similar by their type and range, so that rounding may change them by one.

    Integers of 32 bits and more are classes, tokens or indices: the next number is another one.
    """
    if values.dtype.kind not in "iu" or values.itemsize > 2 or not values.size:
        return False
    return int(values.max()) - int(values.min()) >= _WIDE


def measure_floats(one: NDArray[Any], other: NDArray[Any], units: NDArray[Any] | float) -> NDArray[np.float64]:
    """Return how much each number differs, relative to its unit or to the first result's number if that is larger.

    Equal infinities do not differ, nor do NaN; other numbers that are not finite differ by infinity.
    """
    wide = np.complex128 if "c" in {one.dtype.kind, other.dtype.kind} else np.float64
    one, other = one.astype(wide), other.astype(wide)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    finite = np.isfinite(one) & np.isfinite(other)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.abs(other - one) / np.maximum(units, np.abs(one))
    return np.asarray(np.where(same, 0.0, np.where(finite, errors, np.inf)), dtype=np.float64)


def measure_scale(values: NDArray[Any]) -> float:
    """Return the largest finite absolute value, without those of a mask such as -1e9; 1 if all are 0."""
    sizes = np.abs(values[np.isfinite(values)])
    top = float(sizes.max(initial=0.0))
    large = sizes >= top / 100
    if top >= _LARGE and float(np.ptp(sizes[large])) <= _SAME * top:
        top = float(sizes[~large].max(initial=0.0)) or top
    return top or 1.0


def _format(values: Sequence[Any], digits: int) -> tuple[str, ...]:
    def write(value: Any) -> str:
        if value.dtype.kind == "f":
            return f"{value:.{digits}g}"
        return repr(str(value)[:80]) if value.dtype.kind == "U" else str(value)

    return tuple(map(write, values))
