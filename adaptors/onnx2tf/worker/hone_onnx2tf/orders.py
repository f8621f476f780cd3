"""Find the order of axes in which a converted output equals the model's output."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

_CLOSE = 1e-3
"""Allowed difference of results, relative to the largest of them."""


def find_order(computed: list[Array], due: list[Array]) -> Order:
    """Return the permutation of an output's axes that matches for all rows.

    Raises:
        ValueError: No permutation matches.
    """
    rank = computed[0].ndim
    same, first = tuple(range(rank)), (0, rank - 1, *range(1, rank - 1))
    for order in (same, first) if rank in {3, 4, 5} else (same,):
        if all(_is_close(array.transpose(order), want) for array, want in zip(computed, due, strict=True)):
            return order
    pairs = [(array, want) for array, want in zip(computed, due, strict=True) if array.shape == want.shape]
    apart = [float(_measure_errors(array, want).max(initial=0)) for array, want in pairs]
    difference = f"by up to {max(apart):.3g}" if apart else f"in shape: {computed[0].shape} and not {due[0].shape}"
    raise ValueError(f"its conversion differs from the model {difference}")


def _is_close(found: Array, due: Array) -> bool:
    if found.shape != due.shape:
        return False
    largest = float(np.abs(due[np.isfinite(due)].astype(float)).max(initial=0))
    return bool(_measure_errors(found, due).max(initial=0) <= _CLOSE * max(largest, _CLOSE))


def _measure_errors(found: Array, due: Array) -> Array:
    """Return the error of each number: 0 if both are the same infinity, or both NaN."""
    found, due = found.astype(float), due.astype(float)
    same = (found == due) | (np.isnan(found) & np.isnan(due))
    apart = np.abs(np.subtract(found, due, out=np.zeros_like(due), where=~same))
    return np.where(np.isnan(apart), np.inf, apart)
