"""The parts of an output: the values of all rows at one index of an axis, such as a channel, a column or a box.

One output may have parts of different scales: a detector's boxes from 0 to 320 and its scores from 0 to 1. A part that
is small next to another has no weight in a distance over the whole output, so each part is also measured on its own
scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .arrays import Array

SMALLEST_SCALE = 1e-10
"""If a part's largest value is below this share of its largest neighbour's, its scale is that share: it is noise."""

CONSTANT = 1e-3
"""A part is constant if the range of its values is less than this share of the source's range."""

UNLIKE = 1e-3
"""If a part's scale is below this share of its largest neighbour's, it has another unit."""

_SQUASHED = 2.5e-4
"""The least unit of an fp32 part within -1 and 1, if the whole output has a larger one.

It may come from a sigmoid: OpenVINO computes one with an error of 1.5e-7 even if it returns 1e-4.
"""

_UNIT_SPAN = 0.05
"""The least range of a varying probability: with less, it does not affect decisions."""

_SUM_ERROR = 1e-3
_TINY = float(np.finfo(np.float32).tiny)  # numbers below it have few bits, or are flushed to 0

_LARGE, _FAR, _CLOSE = 1e3, 100, 0.01
"""A mask's number is at least this large, at least this many times larger than all others, and constant up to this
share."""

_AWAY, _LEAST_ROWS, _LEAST_SHARE = 0.1, 5, 0.05
"""A part varies if at least this number and this share of rows differ from its median by this share of its range."""


class Part(NamedTuple):
    """One index of one axis of an output, from 0; axis 0 is that of the rows."""

    axis: int
    place: int

    def choose(self, output: Array) -> Array:
        """Return a copy of an output in which all other parts are 0, or False."""
        chosen, index = np.zeros_like(output), (slice(None),) * self.axis + (self.place,)
        chosen[index] = output[index]
        return chosen

    def __str__(self) -> str:
        """Return the part in the index notation of numpy, such as ``[:, 4]``."""
        return f"[{', '.join([':'] * self.axis + [str(self.place)])}]"


def list_axes(output: Array) -> list[int]:
    """Return the axes of an output that have parts: all but that of the rows, with two indices or more."""
    return [axis for axis in range(1, output.ndim) if output.shape[axis] > 1] if len(output) else []


def is_distribution(output: Array, axis: int) -> bool:
    """Return whether the values along an axis are probabilities: none is negative, and their sum is 1."""
    return bool((output >= 0).all() and np.abs(output.sum(axis=axis) - 1).max(initial=0.0) < _SUM_ERROR)


def measure_scales(output: Array, axis: int) -> Array:
    """Return the largest absolute value of each part of an axis, or of the whole output if that is its unit.

    Args:
        output: Numbers of any shape, rows first; those that are not finite are left out.
        axis: The axis of the parts.
    """
    others = _list_others(output, axis)
    scales = np.abs(np.where(np.isfinite(output), output, 0)).max(axis=others, initial=0.0)
    largest = scales.max(initial=0.0)
    if is_distribution(output, axis):
        return np.full_like(scales, largest)
    return np.asarray(np.maximum(scales, SMALLEST_SCALE * largest))


def measure_units(output: Array, largest: float, *, noise: Array | None = None) -> Array:
    """Return the unit for the error of each number: the scale of the smallest part that contains it.

    ``UNLIKE`` times the largest value is added, since numbers that nearly cancel have the rounding error of the numbers
    they are computed from. It is not added if a part is smaller than that and varies: then it is a quantity of its own.

    Args:
        output: Finite numbers, rows first.
        largest: The largest absolute value of the output.
        noise: Which numbers of a row are known to have the rounding error of larger ones, in the shape of a row.

    Returns:
        Positive numbers in the shape of the output.
    """
    units = np.full(output.shape, (1 + UNLIKE) * largest)
    for axis in list_axes(output):
        scales = measure_scales(output, axis)
        small = scales < UNLIKE * scales.max()
        if noise is not None:
            small &= ~noise.any(axis=tuple(other for other in range(noise.ndim) if other != axis - 1))
        own = find_varying(output, axis, small) if small.any() else small
        squashed = (scales <= 1) & (output.dtype == np.float32)
        unit = np.maximum(scales, np.where(squashed, _SQUASHED, _TINY)) + np.where(own, 0.0, UNLIKE) * largest
        np.minimum(units, unit.reshape([-1 if other == axis else 1 for other in range(output.ndim)]), out=units)
    return units


def measure_smallest_scales(output: Array) -> Array:
    """Return, in the shape of a row, the smallest scale of the parts that contain each number."""
    shape = output.shape[1:]
    smallest = np.full(shape, np.abs(output[np.isfinite(output)]).max(initial=0.0), np.float64)
    for axis in list_axes(output):
        scales = measure_scales(output, axis).reshape([-1 if other == axis - 1 else 1 for other in range(len(shape))])
        np.minimum(smallest, scales, out=smallest)
    return np.maximum(smallest, _TINY)


def find_fillers(wanted: Array, given: Array) -> Array:
    """Return where both outputs have a mask's number, such as -1e9, which would dominate the scale.

    It is far larger than all other numbers, has one value for each sign, and the candidate's is close to it.
    """
    sizes = np.abs(np.where(np.isfinite(wanted), wanted, 0))
    top = float(sizes.max(initial=0.0))
    large = sizes >= top / _FAR
    none = np.zeros(wanted.shape, bool)
    if top < _LARGE or large.all():
        return none
    for sign in (1, -1):
        values = wanted[large & (np.sign(wanted) == sign)]
        if values.size and np.ptp(values) > _CLOSE * np.abs(values).max():
            return none
    return np.asarray(large & (np.abs(given - wanted) <= _CLOSE * sizes))


def find_constant(wanted: Array, given: Array) -> Part | None:
    """Return a part that varies in the source's output and has one value in the candidate's; None if there is none.

    The whole output is also a part: its axis and index are 0. Both outputs must have the same shape and finite numbers.
    A part varies if it does in at least five rows and in 5 % of them: less may be lost by rounding.
    """
    for axis in (0, *list_axes(wanted)):
        due, got = (one[None] if axis == 0 else np.moveaxis(one, axis, 0) for one in (wanted, given))
        if not due.size:
            continue
        spans, left = (_measure_spans(one.reshape(len(one), -1)) for one in (due, got))
        scales = measure_scales(wanted, axis) if axis else np.abs(due).reshape(1, -1).max(axis=1)
        least = _UNIT_SPAN if axis and is_distribution(wanted, axis) else SMALLEST_SCALE * scales.max()
        lost = (spans > CONSTANT * np.maximum(scales, _TINY)) & (left <= CONSTANT * spans) & (spans > least)
        for place in np.flatnonzero(lost):
            if _varies(due[place], float(spans[place])):
                return Part(axis, int(place))
    return None


def find_varying(output: Array, axis: int, among: Array) -> Array:
    """Return which parts of an axis vary in more than a few rows, only for those in ``among``; False for others."""
    parts = np.moveaxis(output, axis, 0)
    spans = _measure_spans(parts.reshape(len(parts), -1))
    chosen = (place for place in np.flatnonzero(among) if spans[place] > 0 and _varies(parts[place], spans[place]))
    found = np.zeros(len(parts), bool)
    found[[*chosen]] = True
    return found


def _measure_spans(tables: Array) -> Array:
    """Return the largest minus the smallest number of each row, also if the type of both is too narrow for it."""
    return np.asarray(tables.max(axis=1).astype(np.longdouble) - tables.min(axis=1))


def _varies(part: Array, span: float) -> bool:
    """Return whether enough rows of a part (rows first) differ from its median."""
    rows = part.reshape(len(part), -1)
    away = (np.abs(rows - np.median(rows)) > _AWAY * span).any(axis=1).sum()
    return bool(away >= min(_LEAST_ROWS, len(rows) - 1) and away >= _LEAST_SHARE * len(rows))


def measure_least_similar(given: Array, wanted: Array) -> Array:
    """Return for each row, from 0 to 1, the similarity of the part that is least similar over all rows.

    The similarity of a part is ``1 - |a - b|² / (|a|² + |b|²)``, which is the cosine of two parts of equal length. For
    one row, the denominator is the mean over all rows.
    """
    rows = np.ones(len(wanted))
    for _, similarity in _measure_parts(given, wanted):
        if similarity.mean() < rows.mean():
            rows = similarity
    return rows


def find_least_similar(given: Array, wanted: Array) -> Part | None:
    """Return the part that is the least similar over all rows; None if no parts are compared separately."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = min(_measure_parts(given, wanted), key=lambda one: one[1].mean(), default=None)
    return found[0] if found else None


def _measure_parts(given: Array, wanted: Array) -> Iterator[tuple[Part, Array]]:
    """Yield the least similar part of each axis, with the similarities of its rows."""
    errors = (given - wanted) ** 2
    for axis in list_axes(wanted):
        if is_distribution(wanted, axis):
            continue
        squares = (wanted**2 + given**2).mean(axis=_list_others(wanted, axis))
        floor = 2 * (SMALLEST_SCALE * measure_scales(wanted, axis).max()) ** 2
        limits = np.maximum(squares, max(floor, np.finfo(np.float64).tiny))
        means = errors.mean(axis=_list_others(wanted, axis)) / limits
        worst = int(np.argmax(np.nan_to_num(means, nan=np.inf)))
        part = errors.take(worst, axis=axis).reshape(len(wanted), -1).mean(axis=1) / limits[worst]
        similarity = np.nan_to_num(1 - part, nan=0.0, posinf=0.0, neginf=0.0).clip(0.0, 1.0)
        yield Part(axis, worst), np.asarray(similarity)


def _list_others(output: Array, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(output.ndim) if other != axis)
