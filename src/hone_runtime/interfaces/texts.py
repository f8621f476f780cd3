"""Missing text: tensors of text have no missing value, so one text represents it.

Workers import it, too: it imports NumPy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MISSING = "\ue000missing"
"""It begins with a character to which Unicode assigns no meaning, so that it never occurs in ordinary text."""

_NAMES = frozenset({"NAType", "NaTType"})
"""The types of pandas' own missing values."""


def is_missing(value: Any) -> bool:
    """Return whether a value represents a missing one: None, NaN, or pandas' own."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in _NAMES


def mark_missing(array: Array) -> Array:
    """Return an array of objects with missing values replaced by ``MISSING``; the same array if none is missing."""
    found = [at for at, value in enumerate(array.flat) if is_missing(value)]
    if not found:
        return array
    made = array.astype(object)
    made.flat[found] = MISSING
    return made


def restore_missing(array: Array, value: Any = np.nan) -> Array:
    """Return an array of text as objects, with a missing value in place of each ``MISSING``."""
    made = array.astype(object)
    made[array == MISSING] = value
    return made
