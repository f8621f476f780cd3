"""A table: the rows of one file of data, with the values of each column and the content that is written again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from hone_runtime.errors import HoneError

Column = Sequence[Any] | NDArray[Any]
"""One value for each row: an array with rows first, or Python's values."""

Kind = Literal["number", "truth", "text", "other"]
"""What the values of a column are, missing ones aside; ``other`` are lists, arrays, records, bytes, dates and times."""


class Content(Protocol):
    """What a file contained, in a form from which some of its rows can be written without any change."""

    def write(self, splits: Mapping[str, Sequence[int]], folder: Path) -> dict[str, Path]:
        """Write the rows of each split to a file or folder of its name, and return these paths by split."""


@dataclass(frozen=True)
class Table:
    """The rows of one file or folder of data.

    Attributes:
        path: The file or folder that was read.
        columns: The values of each column by its name, in the order of the file, as the programs read them.
        kinds: The kind of each column, as the programs read it.
        rows: The number of rows.
        content: Writes some of the rows again.
        notes: What was decided while reading, one sentence each, to be shown to the user.
    """

    path: Path
    columns: Mapping[str, Column]
    kinds: Mapping[str, Kind]
    rows: int
    content: Content
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return tuple(self.columns)


def find_unreadable(path: Path, why: str, hint: str) -> HoneError:
    """Return the error for data that cannot be read: ``data-unreadable``."""
    return HoneError("data-unreadable", f"{path.name} cannot be read.", why=why, hint=hint)


def check_counts(path: Path, counts: Mapping[str, int]) -> int:
    """Return the number of rows that all columns have.

    Raises:
        HoneError: ``data-unreadable`` if the columns have different numbers of rows, ``data-empty`` if they have none.
    """
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        why = f"Its arrays have different numbers of rows: {listed}."
        raise find_unreadable(path, why, "Write arrays with one entry for each row, on their first axis.")
    rows = next(iter(counts.values()), 0)
    if not rows:
        hint = "Name a file with rows: --data FILE."
        raise HoneError("data-empty", f"{path.name} has no rows.", why="Nothing was in it.", hint=hint)
    return rows


def join_columns(path: Path, columns: dict[str, list[Any]], part: Mapping[str, list[Any]]) -> None:
    """Append the rows of one more file to the columns of those before it; ``columns`` is changed.

    Raises:
        HoneError: ``data-unreadable`` if it has other columns.
    """
    if columns and columns.keys() != part.keys():
        name = min(columns.keys() ^ part.keys())
        raise find_unreadable(path, f"Only some files have {name!r}.", "Give all files of the folder the same columns.")
    for name, values in part.items():
        columns.setdefault(name, []).extend(values)
