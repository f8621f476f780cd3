"""The columns that the user names, ``--target`` and ``--group``: found, with the nearest name, and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from hone_runtime.errors import HoneError
from hone_runtime.interfaces.texts import is_missing
from hone_runtime.text import suggest
from kedro_hone.derivation.kinds import format_value
from kedro_hone.derivation.rows import Table
from kedro_hone.programs.shared.classes import LABELS

_MOST_CLASSES: Final = 20
"""Whole numbers with at most this many different ones are classes, if nothing else is known."""
_SHOWN: Final = 8


def find_column(table: Table, name: str, *, flag: str) -> str:
    """Return the name of a column that the user named, unchanged.

    Args:
        table: The data.
        name: The name.
        flag: The flag with which it was given, such as ``--target``.

    Raises:
        HoneError: ``column-unknown``, with the nearest name.
    """
    if name in table.columns:
        return name
    same = [known for known in table.names if known.strip().casefold() == name.strip().casefold()]
    shown = ", ".join(map(repr, table.names[:_SHOWN]))
    more = len(table.names) - _SHOWN
    near = f"Did you mean {same[0]!r}? " if same else suggest(name, table.names)
    raise HoneError(
        "column-unknown",
        f"There is no column {name!r} in {table.path.name}.",
        why=f"It has {shown}{f' and {more} more' if more > 0 else ''}.",
        hint=f"{near}Name a column: {flag} NAME.",
    )


def read_known(table: Table, name: str) -> list[Any]:
    """Return the values of a column with one value for each row: numbers as floats, text unchanged, None if missing."""
    column, kind = table.columns[name], table.kinds[name]
    values = column.ravel().tolist() if isinstance(column, np.ndarray) else column
    return [_read_value(value, number=kind == "number") for value in values]


def _read_value(value: Any, *, number: bool) -> Any:
    if is_missing(value) or value == "":
        return None
    return float(value) if number else value


def check_target(table: Table, name: str, *, classes: bool | None = None) -> tuple[Any, ...] | None:
    """Check the values of the target.

    Args:
        table: The data.
        name: The column of the target.
        classes: Whether it contains classes. By default text and truth values do, and whole numbers of which few are
            different.

    Returns:
        The class of each row; None if it contains no classes.

    Raises:
        HoneError: ``target-unusable`` if values are missing, all equal, or all different as in an index.
    """
    if table.kinds[name] == "other":
        column = table.columns[name]
        if not isinstance(column, np.ndarray):
            _check_missing(table, name, column)
        return None
    values = read_known(table, name)
    _check_missing(table, name, values)
    counts = Counter(values)
    shown = format_value(values[0])
    if len(counts) == 1:
        why = f"All {table.rows:,} rows have `{shown}`, so a model that ignores its input is always right."
        raise _find_unusable(table, name, why, "Add rows of other classes, or name another column: --target NAME.")
    if classes and len(counts) > _MOST_CLASSES and _has_fractions(counts):
        part = next(value for value in counts if isinstance(value, float) and not value.is_integer())
        why = f"It has {len(counts):,} different numbers, such as `{part:g}`, as a number to predict has; the task has "
        why += "classes."
        raise _find_unusable(table, name, why, _suggest_target(table, name) + " Or name the task: --task NAME.")
    whole = all(not isinstance(value, float) or value.is_integer() for value in counts)
    if len(counts) == table.rows and (whole if classes is None else classes or _are_numbered(values)):
        why = f"Each of its {table.rows:,} rows has another value, such as `{shown}`, as an index has."
        raise _find_unusable(table, name, why, _suggest_target(table, name))
    if classes is None:
        classes = table.kinds[name] != "number" or (whole and len(counts) <= _MOST_CLASSES)
    return tuple(values) if classes else None


def _has_fractions(values: Iterable[Any]) -> bool:
    return any(isinstance(value, float) and not value.is_integer() for value in values)


def _are_numbered(values: Sequence[Any]) -> bool:
    """Return whether values are the numbers of the rows, from 0 or 1."""
    return values[0] in {0, 1} and list(values) == [values[0] + at for at in range(len(values))]


def _check_missing(table: Table, name: str, values: Sequence[Any]) -> None:
    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        others = f", and so have {len(missing) - 1:,} more" if len(missing) > 1 else ""
        why = f"Row {missing[0]} (the first is 0) has no value{others}."
        raise _find_unusable(
            table, name, why, "Remove the rows without a value, or name another column: --target NAME."
        )


def _suggest_target(table: Table, name: str) -> str:
    usual = [known for known in LABELS if known in table.columns and known != name]
    few = [known for known in table.names if known != name and _has_few(table, known)]
    near = [*dict.fromkeys([*usual, *few])][:3]
    return (f"Columns with few values are {', '.join(map(repr, near))}. " if near else "") + "Name one: --target NAME."


def _has_few(table: Table, name: str) -> bool:
    if table.kinds[name] == "other":
        return False
    return 1 < len(set(read_known(table, name)) - {None}) <= _MOST_CLASSES


def _find_unusable(table: Table, name: str, why: str, hint: str) -> HoneError:
    return HoneError("target-unusable", f"{name!r} of {table.path.name} cannot be the target.", why=why, hint=hint)


def count_classes(classes: Sequence[Any]) -> Mapping[str, int]:
    """Return the number of rows of each class by its name, sorted by name."""
    return dict(sorted(Counter(map(format_value, classes)).items()))
