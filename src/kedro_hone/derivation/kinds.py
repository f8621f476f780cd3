"""Kinds of columns with typed values: arrays, and the values of JSON and Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np

from hone_runtime.interfaces.texts import is_missing
from kedro_hone.derivation.rows import Column, Kind


def find_kind(column: Column) -> Kind:
    """Return the kind of the values that are not missing; numbers and truth values together are numbers."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        if column.ndim > 1 and column.shape[1:] != (1,):
            return "other"
        return _KINDS.get(column.dtype.kind, "other")
    found = {_find_one(value) for value in column if not is_missing(value)}
    if found <= {"number", "truth"}:
        return "truth" if found == {"truth"} else "number"
    return found.pop() if len(found) == 1 else "other"


_KINDS: dict[str, Kind] = {"b": "truth", "i": "number", "u": "number", "f": "number", "U": "text"}


def format_value(value: Any) -> str:
    """Return a class, or another value, as text for the user: whole floats as whole numbers."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _find_one(value: Any) -> Kind:
    if isinstance(value, bool | np.bool_):
        return "truth"
    if isinstance(value, int | float | np.number):
        return "number"
    return "text" if isinstance(value, str) else "other"
