"""Rows cut to the shapes of the recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hone_runtime.errors import HoneError
from hone_runtime.sessions.shapes import find_fixed_batch
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.samples import SEARCH
from kedro_hone.search.comparison.arrays import read_arrays
from kedro_hone.search.context import RunContext

ODD = "odd sizes"
"""The name of the cut to odd sizes, which is not a valid name of a shape."""

ODD_BATCH = 7
"""A batch size that no recipe uses: it reveals models that were specialized by mistake."""

MASK = "attention_mask"
"""The input that marks the real tokens of a row."""

_LONGER = {"length": " (for text: hone.program.options.length)"}  # by dimension: how to make rows longer


@contextmanager
def crop_search(context: RunContext) -> Iterator[dict[str, Path]]:
    """Yield, by name, a file (``.npz``) of the search split's rows for each shape that is smaller than the rows.

    A shape with the sizes of the data has none: its rows are the split's own. For a model of Transformers, rows are
    also cut to odd sizes (``ODD``), which reveal models that were frozen at a length by mistake. The files are removed
    afterwards.
    """
    source = context.source
    shapes = {shape.name: shape.sizes for shape in context.recipe.all_shapes if shape.sizes.keys() - {"batch"}}
    checked = "transformers" in source.metadata
    with context.store.workspace() as folder:
        found: dict[str, Path] = {}
        rows = read_arrays(context.locate(context.samples.splits[SEARCH].feeds)) if shapes or checked else {}
        if checked:
            shapes[ODD] = find_odd_sizes(source, rows)
        for name, sizes in shapes.items():
            cut = {spec.name: crop(rows[spec.name], spec.shape, sizes, rows=rows) for spec in source.inputs}
            if any(array.shape != rows[spec].shape for spec, array in cut.items()):
                found[name] = folder / f"{name}.npz"
                np.savez(found[name], allow_pickle=False, **cut)
        yield found


def find_batch(context: RunContext, shape: str) -> int:
    """Return the batch size of one of the cuts of ``crop_search``."""
    return find_odd_batch(context.source) if shape == ODD else context.recipe.shapes[shape]["batch"]


def has_fixed_batch(source: Artifact) -> bool:
    """Return whether a source takes only one number of rows per call: then no odd batch is tried."""
    return find_fixed_batch(spec.shape for spec in source.inputs) is not None


def find_odd_batch(source: Artifact) -> int:
    """Return a batch size that no recipe uses; if a source takes only one, that one."""
    return find_fixed_batch(spec.shape for spec in source.inputs) or ODD_BATCH


def find_odd_sizes(source: Artifact, rows: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Return an odd size below that of the data, about two thirds of it, for each dynamic dimension but the batch."""
    known = {
        dim: rows[spec.name].shape[axis]
        for spec in source.inputs
        for axis, dim in enumerate(spec.shape)
        if axis > 0 and isinstance(dim, str)
    }
    return {
        "batch": find_odd_batch(source),
        **{dim: min(size, max(1, size * 2 // 3 - 1) | 1) for dim, size in known.items()},
    }


def find_rows_mask(rows: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_] | None:
    """Return where the tokens of rows are real, by their ``attention_mask``; None if they have none."""
    mask = rows.get(MASK)
    return None if mask is None or mask.ndim != 2 else mask != 0


def crop(
    array: NDArray[Any],
    dims: tuple[int | str, ...],
    sizes: Mapping[str, int],
    *,
    rows: Mapping[str, NDArray[Any]] = MappingProxyType({}),
) -> NDArray[Any]:
    """Cut the named dimensions of an input (``dims``, rows first) to the sizes of a shape, except the batch.

    It is cut at the end; rows that are padded at the beginning, according to the mask in ``rows`` (all inputs), are cut
    at the beginning.

    Raises:
        HoneError: ``data-unreadable``: the data are smaller.
    """
    named = [(axis, dim) for axis, dim in enumerate(dims) if axis > 0 and isinstance(dim, str) and dim in sizes]
    mask = find_rows_mask(rows)
    first = mask is not None and bool(mask[:, -1].all() and not mask[:, 0].all())
    for axis, dim in named:
        if array.shape[axis] < sizes[dim]:
            longer = _LONGER.get(dim, "")
            raise HoneError(
                "data-unreadable",
                f"A shape of the recipe has {dim} = {sizes[dim]}, and the data have {array.shape[axis]}.",
                why="Timing uses real data, which is cropped and never padded.",
                hint=f"Let the program prepare rows at least that long{longer}, or make the shape smaller.",
            )
        start = array.shape[axis] - sizes[dim] if first and dim == "length" else 0
        array = np.take(array, range(start, start + sizes[dim]), axis=axis)
    return np.ascontiguousarray(array)
