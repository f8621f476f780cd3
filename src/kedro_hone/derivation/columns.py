"""Facts about the columns or arrays of a user's data, on which the choice of a task depends."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.derivation.cells import MISSING
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
    known = sorted({str(value) for value in column if value is not None and value == value and value != ""})  # noqa: PLR0124 - NaN
    return ColumnFacts(
        name=name, kind=kind, values=tuple(known) if len(known) <= _MOST_VALUES else None, whole=kind == "truth"
    )


def _describe_numbers(name: str, column: Column) -> ColumnFacts:
    numbers = column if isinstance(column, np.ndarray) and column.dtype.kind in "iuf" else _read_numbers(column)
    known = numbers[np.isfinite(numbers)]
    different = np.unique(known)
    values = tuple(different.tolist()) if len(different) <= _MOST_VALUES else None
    return ColumnFacts(name=name, kind="number", values=values, whole=bool((known == np.round(known)).all()))


def _read_numbers(column: Column) -> NDArray[np.float64]:
    """Return the values that are numbers; what stands for a missing one is left out."""
    with suppress(TypeError, ValueError):
        return np.array([float(value) for value in column if value is not None and value not in MISSING])
    found = []
    for value in column:
        with suppress(TypeError, ValueError):
            found.append(float(value))
    return np.asarray(found, dtype=np.float64)
