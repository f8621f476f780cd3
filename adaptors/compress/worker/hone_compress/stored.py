"""Arrays in a file of a split, whose rows are read when they are needed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

_PIECE = 64 << 20
"""The most bytes of rows that are read at once where all rows are needed."""


class Stored:
    """The rows of an array in an ``npz`` file, as a tensor that is not in memory.

    Attributes:
        shape: The shape, rows first.
        dtype: The type of the tensors that are read.
    """

    def __init__(self, path: Path, name: str, dtype: torch.dtype) -> None:
        """Find an array in a file.

        Args:
            path: The ``npz`` file, which must not be compressed.
            name: The array's name.
            dtype: The type to which it is converted when it is read.
        """
        self.dtype = dtype
        self._path = path
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
            entry = archive.getinfo(f"{name}.npy")
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{path.name} is compressed, so that its rows cannot be read one by one")
            read = {(1, 0): np.lib.format.read_array_header_1_0}
            version = np.lib.format.read_magic(stream)
            shape, columns_first, kind = read.get(version, np.lib.format.read_array_header_2_0)(stream)
            self._offset = _find_content(path, entry) + stream.tell()
        if kind.kind not in "biuf" or not kind.isnative:  # pointers of objects would be followed
            raise ValueError(f"{name} in {path.name} has the type {kind}, whose rows cannot be read one by one")
        self.shape, self._kind = torch.Size(shape), kind
        self._order: Literal["C", "F"] = "F" if columns_first else "C"

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.shape[0])

    def dim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    def __getitem__(self, rows: torch.Tensor | slice) -> torch.Tensor:
        """Return a copy of some rows."""
        # Mapped anew each time: pages count as memory of the process until the file is unmapped.
        size = tuple(self.shape)
        mapped: Any = np.memmap(self._path, self._kind, "r", offset=self._offset, shape=size, order=self._order)
        chosen = mapped[rows.numpy() if isinstance(rows, torch.Tensor) else rows]
        return torch.from_numpy(np.array(chosen, order="C")).to(self.dtype)


def _find_content(path: Path, entry: zipfile.ZipInfo) -> int:
    """Return where an entry's content begins: after its header, a name and extra fields."""
    with path.open("rb") as stream:
        stream.seek(entry.header_offset + 26)
        sizes = np.frombuffer(stream.read(4), dtype="<u2")
    return entry.header_offset + 30 + int(sizes.sum())


def measure_row(rows: torch.Tensor | Stored) -> int:
    """Return the bytes of a row."""
    return int(math.prod(rows.shape[1:]) * rows.dtype.itemsize)


def split_pieces(rows: torch.Tensor | Stored) -> Iterator[torch.Tensor]:
    """Yield all rows in order, in pieces of a limited size."""
    count = max(1, _PIECE // max(1, measure_row(rows)))
    for start in range(0, len(rows), count):
        yield rows[start : start + count]


def measure_variance(rows: torch.Tensor | Stored) -> float:
    """Return the variance of all numbers, which are read twice: first for their mean."""
    count, total, squares = max(1, int(math.prod(rows.shape))), 0.0, 0.0
    for piece in split_pieces(rows):
        total += float(piece.double().sum())
    for piece in split_pieces(rows):
        squares += float(((piece.double() - total / count) ** 2).sum())
    return float(squares / count)
