"""Facts about the columns or arrays of a user's data, on which the choice of a task depends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.interfaces.texts import is_missing
from kedro_hone.derivation.rows import Column, Kind, Table

_MOST_VALUES: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """One column of a table, or one array.

    Attributes:
        name: Its name in the data.
        kind: What its elements are.
        shape: The shape of a row; empty for one value.
        values: Its different values in order, None if there are over 1,000 or a row has more than one.
        whole: Whether all of its numbers are whole.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...] = ()
    values: tuple[Any, ...] | None = None
    whole: bool = False


def describe_columns(table: Table) -> tuple[ColumnFacts, ...]:
    """Return the facts about each column of a table, in its order."""
    return tuple(_describe(name, column, table.kinds[name]) for name, column in table.columns.items())


def _describe(name: str, column: Column, kind: Kind) -> ColumnFacts:
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return ColumnFacts(name=name, kind=kind, shape=column.shape[1:])
    if kind == "number":
        return _describe_numbers(name, column)
    if kind == "other":
        return ColumnFacts(name=name, kind=kind)
    known = sorted({str(value) for value in column if not is_missing(value) and value != ""})
    return ColumnFacts(
        name=name, kind=kind, values=tuple(known) if len(known) <= _MOST_VALUES else None, whole=kind == "truth"
    )


def _describe_numbers(name: str, column: Column) -> ColumnFacts:
    numbers = column if isinstance(column, np.ndarray) and column.dtype.kind in "iuf" else _make_floats(column)
    known = numbers[np.isfinite(numbers)]
    different = np.unique(known)
    values = tuple(different.tolist()) if len(different) <= _MOST_VALUES else None
    return ColumnFacts(name=name, kind="number", values=values, whole=bool((known == np.round(known)).all()))


def _make_floats(column: Column) -> NDArray[np.float64]:
    return np.array([float(value) for value in column if not is_missing(value)], dtype=np.float64)
