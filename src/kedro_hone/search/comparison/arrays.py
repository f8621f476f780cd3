"""Arrays written by a worker, read without trusting it: no pickles, no compression, only files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any, Final

import numpy as np
from numpy.lib.format import MAGIC_PREFIX
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from hone_runtime.values.regular import open_regular
from hone_runtime.values.samples import DRAWN

UNREADABLE: Final = (
    *(OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, NotImplementedError),
    *(TokenError, SyntaxError, TypeError, RecursionError),  # the header of an array is a Python literal
    SystemError,  # CPython's, for text that is not valid Unicode
)
"""The exceptions when reading untrusted arrays, in ``open_arrays`` and when accessing one of them."""


@contextmanager
def open_arrays(path: Path) -> Iterator[NpzFile]:
    """Open an npz file with uncompressed arrays: a compressed one could have any size in memory.

    Raises:
        One of ``UNREADABLE``: It is not such a file. Accessing an array may also raise one of them.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        with zipfile.ZipFile(stream) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError(f"{path.name} is compressed")
            if any(archive.open(entry).read(len(MAGIC_PREFIX)) != MAGIC_PREFIX for entry in entries):
                raise ValueError(f"{path.name} contains something that is not an array")
        if sum(entry.file_size for entry in entries) > size:
            raise ValueError(f"the arrays of {path.name} are larger than the file")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            yield arrays


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of an npz file; raises as ``open_arrays``."""
    with open_arrays(path) as archive:
        return dict(archive)


def is_drawn(path: Path) -> bool:
    """Return whether data contain an ``.npz`` of inputs that ``kedro-hone optimize --no-data`` drew at random.

    The mark is read from the file, since a catalog can name such a file by any kind of entry. ``path`` is a file, or a
    folder with all that is below it. False for a file that is no ``.npz``.
    """
    if path.is_dir():
        return any(is_drawn(file) for file in path.rglob("*") if not file.is_dir())
    if path.suffix.lower() != ".npz":
        return False
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
            return f"{DRAWN}.npy" in archive.namelist()
    except UNREADABLE:
        return False  # the program explains what is wrong with it
