"""Rows of arrays in calls of one size, as the quantizers and a tuning run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

MOST_ROWS = 256
"""The most rows whose outputs are compared."""
BATCH = 64
"""Rows of one call if the batch is dynamic."""
TIMED = 16
"""Rows of one call that is timed, if the batch is dynamic."""


def read_rows(path: str, names: Iterable[str], most: int | None = None) -> Arrays:
    """Return the arrays of these names in an npz file, with at most so many rows."""
    with np.load(path, allow_pickle=False) as data:
        return {name: data[name][:most] for name in names}


def split_rows(arrays: Arrays, rows: Sequence[int], size: int) -> list[Arrays]:
    """Return these rows of each array in calls of one size; the last call is filled up with the first rows."""
    parts = np.resize(rows, (-(-len(rows) // size), size))
    return [{name: array[part] for name, array in arrays.items()} for part in parts]


def run_rows(run: Callable[[Arrays], Arrays], arrays: Arrays, size: int) -> Arrays:
    """Return the outputs for all rows, computed in calls of one size.

    Of an output without one row for each row of its call, only the result of the first call is returned.
    """
    count = len(next(iter(arrays.values())))
    parts = [run(part) for part in split_rows(arrays, range(count), size)]
    outputs: Arrays = {}
    for name, first in parts[0].items():
        by_row = np.ndim(first) > 0 and len(first) == size
        outputs[name] = np.concatenate([part[name] for part in parts])[:count] if by_row else first
    return outputs
