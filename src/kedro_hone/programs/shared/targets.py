"""Targets: one array for each name, rows first, except for tables, which all rows share.

A program with ``NEEDS_TARGETS = False`` has the source's outputs as targets, together with its prepared arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .arrays import Array, Arrays

TABLE = "table_"
"""The prefix of the names of targets without a row for each row of the data, such as the words of a vocabulary."""

UNLABELLED = "unlabelled_"
"""The prefix of the names of arrays in the file of a program without labels: they are not labels."""


def is_table(name: str) -> bool:
    """Return whether the target of this name is a table for all rows."""
    return name.removeprefix(UNLABELLED).startswith(TABLE)


def take_rows(targets: Mapping[str, Array], rows: Any) -> Arrays:
    """Return some rows of each target; tables are not changed."""
    return {name: array if is_table(name) else array[rows] for name, array in targets.items()}


def count_rows(targets: Mapping[str, Array]) -> int:
    """Return how many rows the targets have."""
    return next(len(array) for name, array in targets.items() if not is_table(name))


def name_prepared(program: Any, targets: Mapping[str, Array]) -> Arrays:
    """Return a program's prepared targets under their names in the file."""
    prefix = "" if getattr(program, "NEEDS_TARGETS", True) else UNLABELLED
    return {f"{prefix}{name}": array for name, array in targets.items()}


def merge_targets(program: Any, prepared: Mapping[str, Array], outputs: Mapping[str, Array]) -> Arrays:
    """Return a program's targets: those in the file, or for a program without labels also the source's outputs.

    Raises:
        ValueError: The program prepared an array with the name of one of the model's outputs.
    """
    if getattr(program, "NEEDS_TARGETS", True):
        return dict(prepared)
    own = {name.removeprefix(UNLABELLED): array for name, array in prepared.items()}
    if clash := sorted(own.keys() & outputs.keys()):
        raise ValueError(f"prepare returned {clash[0]!r}, and an output of the model has this name")
    return {**outputs, **own}


def pack(rows: list[Any], *, fill: Any, dtype: Any) -> Array:
    """Return lists of different lengths as one array, padded at their ends; with at least one column."""
    packed = np.full((len(rows), max((len(row) for row in rows), default=0) or 1), fill, dtype=dtype)
    for at, row in enumerate(rows):
        packed[at, : len(row)] = row
    return packed
