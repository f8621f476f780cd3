"""The parts of an output: what one index of an axis takes out of all rows, such as a channel, a column or a box.

One output may have unlike parts: a detector's boxes of 0 to 320 and its scores of 0 to 1. What is small next to
another part has no weight in a distance over the whole output, so each part is measured by its own scale too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .arrays import Array

SMALLEST_SCALE = 1e-5
"""A part whose largest value is below this share of its largest neighbour's has the scale of that share: noise."""

CONSTANT = 1e-3
"""A part is constant where its values span less than this share of what the source's span."""

_UNIT_SPAN = 0.05
"""What a probability must span to count as varying: less decides nothing."""

_SUM_ERROR = 1e-3


class Part(NamedTuple):
    """One index of one axis of an output, counted from 0; axis 0 is that of the rows."""

    axis: int
    place: int

    def __str__(self) -> str:
        """Return the part as numpy would take it, such as ``[:, 4]``."""
        return f"[{', '.join([':'] * self.axis + [str(self.place)])}]"


def list_axes(output: Array) -> list[int]:
    """Return the axes of an output that have parts: all but that of the rows, with two indices or more."""
    return [axis for axis in range(1, output.ndim) if output.shape[axis] > 1] if len(output) else []


def is_distribution(output: Array, axis: int) -> bool:
    """Return whether the values along an axis are probabilities: none is negative, and their sum is 1."""
    return bool((output >= 0).all() and np.abs(output.sum(axis=axis) - 1).max(initial=0.0) < _SUM_ERROR)


def measure_scales(output: Array, axis: int) -> Array:
    """Return the largest absolute value of each part of an axis, or of the whole output where that is its unit.

    Args:
        output: Numbers of any shape, rows first; what is not finite is left out.
        axis: The axis of the parts.
    """
    others = _list_others(output, axis)
    scales = np.abs(np.where(np.isfinite(output), output, 0)).max(axis=others, initial=0.0)
    largest = scales.max(initial=0.0)
    if is_distribution(output, axis):
        return np.full_like(scales, largest)
    return np.asarray(np.maximum(scales, SMALLEST_SCALE * largest))


def find_constant(wanted: Array, given: Array) -> Part | None:
    """Return a part that varies in the source's output and has one value in the candidate's; None without one.

    The whole output is a part too: axis and index are 0. Both have the same shape, and numbers that are finite.
    """
    if wanted.size and _is_lost(np.ptp(wanted), np.ptp(given), np.abs(wanted).max()):
        return Part(0, 0)
    for axis in list_axes(wanted):
        others, scales = _list_others(wanted, axis), measure_scales(wanted, axis)
        spans, left = np.ptp(wanted, axis=others), np.ptp(given, axis=others)
        least = _UNIT_SPAN if is_distribution(wanted, axis) else SMALLEST_SCALE * scales.max(initial=0.0)
        lost = _is_lost(spans, left, scales) & (spans > least)
        if lost.any():
            return Part(axis, int(np.flatnonzero(lost)[0]))
    return None


def _is_lost(span: Array, left: Array, scale: Array) -> Array:
    return np.asarray((span > CONSTANT * scale) & (left <= CONSTANT * span))


def measure_least_similar(given: Array, wanted: Array) -> Array:
    """Return for each row how similar the part is that is the least similar over all rows, from 0 to 1.

    The similarity of a part is ``1 - |a - b|² / (|a|² + |b|²)``, the cosine of two parts that are equally long; of a
    row of it, the same with the means of all rows below the line.
    """
    rows = np.ones(len(wanted))
    for similarity in _measure_parts(given, wanted):
        if similarity.mean() < rows.mean():
            rows = similarity
    return rows


def _measure_parts(given: Array, wanted: Array) -> Iterator[Array]:
    """Yield the similarities (rows) of the least similar part of each axis."""
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
        yield np.asarray(np.nan_to_num(1 - part, nan=0.0, posinf=0.0, neginf=0.0).clip(0.0, 1.0))


def _list_others(output: Array, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(output.ndim) if other != axis)
