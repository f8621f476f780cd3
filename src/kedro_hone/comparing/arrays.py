"""Arrays that a worker wrote, read without trusting it: no pickle, nothing compressed, only files; and rows cut."""

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

from kedro_hone.comparing.setting import Setting
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.samples import SEARCH
from kedro_hone.core.workers.host.replies import open_regular

UNREADABLE: Final = (
    *(OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, NotImplementedError),
    *(TokenError, SyntaxError, TypeError, RecursionError),  # the header of an array is a Python literal
)
"""What reading arrays that somebody else wrote can raise, in ``open_arrays`` and when one of them is taken."""


@contextmanager
def open_arrays(path: Path) -> Iterator[NpzFile]:
    """Open an npz file whose arrays are as large in memory as on the disk: a compressed one could be any size.

    Raises:
        One of ``UNREADABLE``: It is no such file. Taking an array may raise one of them too.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        with zipfile.ZipFile(stream) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError(f"{path.name} is compressed")
            if any(archive.open(entry).read(len(MAGIC_PREFIX)) != MAGIC_PREFIX for entry in entries):
                raise ValueError(f"{path.name} holds something that is no array")
        if sum(entry.file_size for entry in entries) > size:
            raise ValueError(f"the arrays of {path.name} are larger than the file")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            yield arrays


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of an npz file; raises what ``open_arrays`` does."""
    with open_arrays(path) as archive:
        return dict(archive)


@contextmanager
def crop_search(setting: Setting) -> Iterator[dict[str, Path]]:
    """Yield a file (``.npz``) of the search split's rows for each shape that needs them smaller than they are, by name.

    A shape whose sizes are those of the data has none: its rows are the split's own. The files are gone afterwards.
    """
    shapes = [shape for shape in setting.recipe.all_shapes if shape.sizes.keys() - {"batch"}]
    with setting.store.workspace() as folder:
        found: dict[str, Path] = {}
        rows = read_arrays(setting.locate(setting.samples.splits[SEARCH].feeds)) if shapes else {}
        for shape in shapes:
            cut = {spec.name: crop(rows[spec.name], spec.shape, shape.sizes) for spec in setting.source.inputs}
            if any(array.shape != rows[name].shape for name, array in cut.items()):
                found[shape.name] = folder / f"{shape.name}.npz"
                np.savez(found[shape.name], allow_pickle=False, **cut)
        yield found


def crop(rows: NDArray[Any], dims: tuple[int | str, ...], sizes: dict[str, int]) -> NDArray[Any]:
    """Cut the dimensions of an input that have names (``dims``, rows first) to the sizes of a shape, but the batch.

    Raises:
        HoneError: ``data-unreadable``: the data are smaller.
    """
    named = [(axis, dim) for axis, dim in enumerate(dims) if axis > 0 and isinstance(dim, str) and dim in sizes]
    for axis, dim in named:
        if rows.shape[axis] < sizes[dim]:
            raise HoneError(
                "data-unreadable",
                f"A shape of the recipe asks for {dim} = {sizes[dim]}, and the data have {rows.shape[axis]}.",
                why="What is timed is real data; it is cut, never stretched.",
                hint="Let the program prepare rows at least that long, or make the shape smaller.",
            )
        rows = np.take(rows, range(sizes[dim]), axis=axis)
    return np.ascontiguousarray(rows)
