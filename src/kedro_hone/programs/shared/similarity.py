"""How similar a candidate's output is to the source's, row by row, from 0 to 1."""

from __future__ import annotations

import numpy as np

from .arrays import Array
from .parts import find_fillers, measure_least_similar

UNLIKE = 2
"""A part counts separately if it is this many times less similar than the whole: with less, noise selects the part."""


def find_class_axis(shape: tuple[int, ...]) -> int:
    """Return the axis of the classes: the last one, or the second one of images (four dimensions or more)."""
    return 1 if len(shape) > 3 else len(shape) - 1


def measure_similarity(given: Array, wanted: Array, how: str) -> Array:
    """Return the similarity of each row of an output (``given``) to the source's (``wanted``).

    Args:
        given: The candidate's output, rows first.
        wanted: The source's output, of the same shape.
        how: ``equal`` and ``argmax``: the share of a row's elements, or of its positions, that are the same. ``l2``: 1
            minus the relative error. ``cosine``: the cosine, reduced if the rows have different lengths; or the
            similarity of the least similar part of the output if it is ``UNLIKE`` the whole.
    """
    if how in {"equal", "argmax"}:
        right = given == wanted
        if how == "argmax":
            axis = find_class_axis(wanted.shape)
            right = (given.argmax(axis=axis) == wanted.argmax(axis=axis)) & ~_find_strange(given, wanted).any(axis=axis)
        return np.asarray(right.reshape(len(right), -1).mean(axis=1))
    strange, kept = _find_strange(given, wanted), np.isfinite(wanted) & ~find_fillers(wanted, given)
    # If both are the same infinity, NaN, or a mask's number, their distance is 0: both are replaced by 0.
    given, wanted = (np.where(kept & ~strange, one, 0).astype(np.float64) for one in (given, wanted))
    tables = (output.reshape(len(output), -1) for output in (given, wanted))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        similarity = {"cosine": _measure_cosine, "l2": _measure_l2}[how](*tables)
        if how == "cosine":
            part = measure_least_similar(given, wanted)
            if np.mean(1 - part) > UNLIKE * np.mean(1 - similarity):
                similarity = np.minimum(similarity, part)
    rows = np.nan_to_num(similarity, posinf=0.0, neginf=0.0).clip(0.0, 1.0)
    return np.asarray(np.where(strange.reshape(len(strange), -1).any(axis=1), 0.0, rows))


def _find_strange(given: Array, wanted: Array) -> Array:
    """Return where one of two outputs is not finite, and the other is not the same."""
    if given.dtype.kind not in "fc" and wanted.dtype.kind not in "fc":
        return np.zeros(wanted.shape, bool)
    same = (given == wanted) | (np.isnan(given) & np.isnan(wanted))
    return np.asarray(~(np.isfinite(given) & np.isfinite(wanted)) & ~same)


def _measure_cosine(given: Array, wanted: Array) -> Array:
    """Return the cosine of each row, reduced if the two rows have different lengths.

    ``2 a·b / (|a|² + |b|²)`` is the cosine if both have the same length, and 0.8 if one is twice the other: the cosine
    alone would not detect a candidate that returns half of every value.
    """
    lengths = (given**2).sum(axis=1) + (wanted**2).sum(axis=1)
    return np.where(lengths == 0, 1.0, 2 * (given * wanted).sum(axis=1) / lengths)


def _measure_l2(given: Array, wanted: Array) -> Array:
    """Return 1 minus the relative L2 error of each row.

    The error is relative to the length of the source's row, or to the root mean square of all rows' lengths if that is
    larger. So a row near 0 does not get a large relative error.
    """
    lengths = np.linalg.norm(wanted, axis=1)
    scale = np.maximum(lengths, np.sqrt(np.mean(lengths**2)))
    return np.asarray(1 - np.linalg.norm(given - wanted, axis=1) / np.maximum(scale, np.finfo(np.float64).tiny))
