"""The distance between the outputs of a model and of its quantized copy, computed without labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SATURATED = 50.0
"""A spread of a row above which its softmax is one-hot in single precision, and changes of other columns vanish."""
_TINY = 1e-30


def measure_divergence(wanted: Mapping[str, Array], made: Mapping[str, Array]) -> float:
    """Return the distance of made outputs from wanted ones, summed over the outputs; infinite if one is not finite.

    Outputs like logits are compared by the Kullback-Leibler divergence of their softmax over the last axis, averaged
    over all other axes (Kullback and Leibler, "On information and sufficiency", 1951). Other floats are compared by
    the squared error over the variance of the wanted output. For whole numbers and text it is the share of differing
    values. Positions where the wanted output is not finite are ignored.

    Args:
        wanted: The outputs of the source, by name, rows first.
        made: The outputs of the candidate, with the same names and shapes.
    """
    total = 0.0
    for name, left in wanted.items():
        right = made[name]
        if left.dtype.kind != "f":
            total += float(np.mean(left != right)) if left.size else 0.0
        elif left.size:
            total += _measure_floats(left.astype(np.float64), right.astype(np.float64))
    return total if math.isfinite(total) else math.inf


def _measure_floats(wanted: Array, made: Array) -> float:
    finite = np.isfinite(wanted)
    if not finite.any():
        return 0.0
    if not np.isfinite(made[finite]).all():
        return math.inf
    if finite.all() and is_like_logits(wanted):
        return _measure_softmax(wanted, made)
    wanted, made = wanted[finite], made[finite]
    return float(np.mean((wanted - made) ** 2) / max(float(wanted.var()), _TINY))


def is_like_logits(array: Array) -> bool:
    """Return whether the last axis of finite floats may have scores of classes.

    Rows with one column have no classes, rows of unit length are embeddings, and a softmax of a large spread is blind
    to most changes.
    """
    if array.ndim < 2 or array.shape[-1] < 2:
        return False
    if np.allclose(np.linalg.norm(array, axis=-1), 1, atol=1e-3):
        return False
    return bool((array.max(axis=-1) - np.median(array, axis=-1)).max() < _SATURATED)


def _measure_softmax(wanted: Array, made: Array) -> float:
    if (wanted >= 0).all() and np.allclose(wanted.sum(axis=-1), 1, atol=1e-3):  # probabilities already
        left, right = (np.log(np.maximum(one, _TINY)) for one in (wanted, made))
    else:
        left, right = _log_softmax(wanted), _log_softmax(made)
    return float(max((np.exp(left) * (left - right)).sum(axis=-1).mean(), 0.0))


def _log_softmax(array: Array) -> Array:
    shifted = array - array.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))
