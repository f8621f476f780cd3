"""Rows cut to the shapes of the recipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.comparing.arrays import read_arrays
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.samples import SEARCH


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
