"""The distance between the outputs of a model and of its quantized copy, computed without labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SATURATED = 50.0
"""A spread of a row above which its softmax is one-hot in single precision, and changes of other columns vanish."""
_TINY = 1e-30
_AGREEING = 0.95
"""The share of predictions that are the largest score; the others may be ties, thresholds or marked as invalid."""


def find_class_axes(outputs: Mapping[str, Array], predictions: Any) -> dict[str, int]:
    """Return the axis with the scores of classes, for each output in which a program chooses the largest score.

    It is the axis whose ``argmax`` is what the program predicts: the last one for rows and tokens, the second for the
    pixels of a segmentation. Embeddings and regressions have none.

    Args:
        outputs: The model's outputs, by name, rows first.
        predictions: What the program decodes from them: an array, or arrays by name.
    """
    chosen = [np.asarray(one) for one in (predictions.values() if isinstance(predictions, Mapping) else [predictions])]
    chosen = [one for one in chosen if one.dtype.kind in "iu" and one.size]
    found = {}
    for name, array in outputs.items():
        fitting = [axis for axis in _list_axes(array) if any(_agrees(array, axis, one) for one in chosen)]
        if fitting:
            found[name] = fitting[-1]
    return found


def _list_axes(array: Array) -> Iterator[int]:
    if array.dtype.kind == "f":
        yield from (axis for axis in range(1, array.ndim) if array.shape[axis] > 1)


def _agrees(array: Array, axis: int, chosen: Array) -> bool:
    if chosen.shape != (*array.shape[:axis], *array.shape[axis + 1 :]):
        return False
    return bool((array.argmax(axis=axis) == chosen).mean() >= _AGREEING)


def measure_divergence(
    expected: Mapping[str, Array], made: Mapping[str, Array], axes: Mapping[str, int] = MappingProxyType({})
) -> float:
    """Return the distance of made outputs from expected ones, summed over the outputs; infinite if one is not finite.

    Scores of classes are compared by the Kullback-Leibler divergence of their softmax over the classes, averaged over
    all other axes (Kullback and Leibler, "On information and sufficiency", 1951). Other floats are compared by the
    squared error over the variance of the expected output. For whole numbers and text it is the share of differing
    values. Positions where the expected output is not finite are ignored.

    Args:
        expected: The outputs of the source, by name, rows first.
        made: The outputs of the candidate, with the same names and shapes.
        axes: The axis of the classes, for outputs that have one; see ``find_class_axes``.
    """
    total = 0.0
    for name, left in expected.items():
        right = made[name]
        if left.dtype.kind != "f":
            total += float(np.mean(left != right)) if left.size else 0.0
        elif left.size:
            total += _measure_floats(left.astype(np.float64), right.astype(np.float64), axes.get(name))
    return total if math.isfinite(total) else math.inf


def _measure_floats(expected: Array, made: Array, axis: int | None) -> float:
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    if not np.isfinite(made[finite]).all():
        return math.inf
    if axis is not None and finite.all():
        scores = np.moveaxis(expected, axis, -1)
        if (scores.max(axis=-1) - np.median(scores, axis=-1)).max() < _SATURATED:
            return _measure_softmax(scores, np.moveaxis(made, axis, -1))
    expected, made = expected[finite], made[finite]
    return float(np.mean((expected - made) ** 2) / max(float(expected.var()), _TINY))


def _measure_softmax(expected: Array, made: Array) -> float:
    if (expected >= 0).all() and np.allclose(expected.sum(axis=-1), 1, atol=1e-3):  # probabilities already
        left, right = (np.log(np.maximum(one, _TINY)) for one in (expected, made))
    else:
        left, right = _log_softmax(expected), _log_softmax(made)
    return float(max((np.exp(left) * (left - right)).sum(axis=-1).mean(), 0.0))


def _log_softmax(array: Array) -> Array:
    shifted = array - array.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))
