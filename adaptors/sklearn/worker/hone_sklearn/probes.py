"""Rows derived from the calibration data, for which a converter may be wrong but which the data may lack."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hone_runtime.conversion import agreement
from hone_runtime.interfaces import texts

Json = dict[str, Any]
Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

MOST_ROWS = 1000
"""The number of calibration rows to compare."""
_MIXED = 512
_MOST_COLUMNS = 128
_MOST_CHANGED, _LEAST_CHANGED = 32, 8
"""The number of rows in which one column is changed; fewer if there are many columns."""
_BUDGET = 1024
"""The number of rows of one kind, except that each column has at least ``_LEAST_CHANGED``."""
_UNSEEN = "an unseen category"


def list_sentinels(estimator: Any) -> list[float | str]:
    """Return the values that represent missing ones, from an estimator's own parameters."""
    try:
        found = estimator.get_params(deep=True)
    except Exception:  # noqa: BLE001 - a booster has none, and an author's own class may not have them
        return []
    values = [value for name, value in found.items() if name.rpartition("__")[2] in {"missing", "missing_values"}]
    texts = {value for value in values if isinstance(value, str)}
    known = {float(value) for value in values if isinstance(value, numbers.Real) and not isinstance(value, bool)}
    return [*sorted(texts), *sorted(value for value in known if np.isfinite(value))]


def make_probes(
    feeds: Arrays, agreeing: list[int], *, names: Sequence[str] | None, sentinels: Sequence[float | str], seed: int
) -> Iterator[Any]:
    """Yield the probes of a table: rows with mixed columns, and rows in which one column is changed.

    Each column is set to zero, to its smallest and largest value, to values slightly outside of these, to NaN, and to
    an unknown category. The outside values depend on the column's own range, so that fp32 can represent them.

    Args:
        feeds: The calibration data: a matrix, or a column of each input.
        agreeing: The indices of the rows to change.
        names: The names of the matrix's columns; None if absent.
        sentinels: Further values, which represent missing ones.
        seed: The random seed.
    """
    columns = _list_columns(feeds, names)
    draw = np.random.default_rng(seed)
    mixed = _take(feeds, [agreeing[0]] * _MIXED)
    for read, _ in columns:
        read(mixed)[...] = read(feeds)[draw.choice(agreeing, _MIXED)]
    what = "of rows with the columns of the calibration data mixed"
    yield agreement.Probe("mixed", mixed, [*range(_MIXED)], [agreement.Part(what, slice(None))])
    chosen = [columns[place] for place in agreement.choose(len(columns), _MOST_COLUMNS)]
    size = min(_MOST_CHANGED, max(_LEAST_CHANGED, _BUDGET // len(chosen)))
    rows = [agreeing[place] for place in agreement.choose(len(agreeing), size)]
    changes: dict[str, list[tuple[str, Callable[[Arrays], Array], Any]]] = {}
    for read, name in chosen:
        for kind, value in _list_values(read(feeds), sentinels):
            changes.setdefault(kind, []).append((name, read, value))
    for kind, some in changes.items():
        made, parts = _take(feeds, rows * len(some)), []
        for at, (name, read, value) in enumerate(some):
            part = slice(at * len(rows), (at + 1) * len(rows))
            read(made)[part] = value
            parts.append(agreement.Part(f"of the calibration data with {name} set to {_show(kind, value)}", part))
        yield agreement.Probe(kind, made, rows * len(some), parts)


def _list_columns(feeds: Arrays, names: Sequence[str] | None) -> list[tuple[Callable[[Arrays], Array], str]]:
    """Return a function that reads each column of a table, as a view, with its name."""
    found: list[tuple[Callable[[Arrays], Array], str]] = []
    for name, array in feeds.items():
        for column in range(array.shape[1]):
            known = name if array.shape[1] == 1 else names[column] if names else None
            called = f"column {known!r}" if known is not None else f"column {column}"
            found.append((partial(_read, name, column), called))
    return found


def _read(name: str, column: int, feeds: Arrays) -> Array:
    return feeds[name][:, column]


def _take(feeds: Arrays, rows: list[int]) -> dict[str, Array]:
    return {name: array[rows] for name, array in feeds.items()}


def _list_values(column: Array, sentinels: Sequence[float | str]) -> Iterator[tuple[str, Any]]:
    """Yield the values for a column, with their kind."""
    if column.dtype.kind not in "biuf":
        yield "unseen", "kedro-hone: unseen"
        yield "empty", ""
        yield "missing", texts.MISSING
        for value in sentinels:
            if isinstance(value, str):
                yield "sentinel", value
        return
    yield "zero", 0
    known = column[np.isfinite(column)].astype(np.float64)
    if column.dtype.kind == "f":
        yield "missing", np.nan
    if not len(known):
        return
    low, high = float(known.min()), float(known.max())
    whole = bool((known == np.floor(known)).all())
    step = max(1.0, np.floor((high - low) / 8)) if whole else (high - low) / 8 or max(abs(high), 1.0) / 8
    yield "smallest", low
    yield "largest", high
    yield "below", low - step
    yield "above", high + step
    if whole:
        yield "next", high + 1
    for value in sentinels:
        if not isinstance(value, str):
            yield "sentinel", value


def _show(kind: str, value: Any) -> str:
    if kind in {"unseen", "next"}:
        return f"{value!r}, {_UNSEEN}"
    return "NaN, a missing value" if kind == "missing" else repr(value)
