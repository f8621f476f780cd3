"""How close embeddings are to the source's: by their cosine, and by the nearest neighbour of each row."""

from __future__ import annotations

import numpy as np

from ..shared.arrays import Array

_CHUNK = 512  # rows with their similarities to all others in memory at once
_TIE = 1e-5  # rows are equally near if their similarities differ by less, such as copies of one text


def _normalize(vectors: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        wide = vectors.astype(np.float64)
        return np.asarray(np.nan_to_num(wide / np.linalg.norm(wide, axis=1, keepdims=True), posinf=0.0, neginf=0.0))


def measure_cosine(given: Array, wanted: Array) -> Array:
    """Return the cosine of each row of embeddings (rows, numbers); 0 if one is not finite or has no direction."""
    return np.asarray((_normalize(given) * _normalize(wanted)).sum(axis=1))


def compare_neighbours(given: Array, wanted: Array) -> Array:
    """Return 1 for each row if its nearest other row is also nearest in the source's embeddings, otherwise 0."""
    given, wanted = _normalize(given), _normalize(wanted)
    right = np.ones(len(given), dtype=np.float64)
    for start in range(0, len(given) if len(given) > 1 else 0, _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(given)))
        ours, theirs = given[rows] @ given.T, wanted[rows] @ wanted.T
        for similarities in (ours, theirs):
            similarities[np.arange(len(rows)), rows] = -np.inf
        found = theirs[np.arange(len(rows)), ours.argmax(axis=1)]
        right[rows] = (found >= theirs.max(axis=1) - _TIE) & given[rows].any(axis=1)
    return right
