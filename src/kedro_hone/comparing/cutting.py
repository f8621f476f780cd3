"""Cut prepared data to what candidates get, and refuse data that prove nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Json
from kedro_hone.recipe.schema import Recipe


def refuse_overlaps(overlaps: list[dict[str, Json]]) -> None:
    """Refuse splits that share rows, as the program's worker found.

    Raises:
        HoneError: ``data-overlap``, naming the first shared row.
    """
    for overlap in overlaps:
        first, second = overlap["splits"]
        raise HoneError(
            "data-overlap",
            f"The {first} and {second} splits share {overlap['count']} row(s).",
            why=f"Row {overlap['example_rows'][0]} of {first} is row {overlap['example_rows'][1]} of {second}: a score "
            "on rows that were used before proves nothing.",
            hint="Remove the shared rows from one of them, then dvc add, git commit, dvc push.",
        )


def cut_calibration(path: Path, rows: int) -> None:
    """Keep so many first rows of a split's inputs (``.npz``), which are written again."""
    with np.load(path, allow_pickle=False) as archive:
        kept = {name: array[:rows] for name, array in archive.items()}
    np.savez(path, allow_pickle=False, **kept)


def cut_shapes(feeds: Path, source: Artifact, recipe: Recipe, folder: Path) -> None:
    """Write the first rows of the search split's inputs (``feeds``, ``.npz``) for each shape to ``shapes/<name>.npz``.

    Rows are repeated where they do not suffice.

    Raises:
        HoneError: ``recipe-invalid``: a shape names a dimension that the model does not have; ``data-unreadable``: the
            data are smaller than a shape asks for.
    """
    _check_dimensions(source, recipe)
    (folder / "shapes").mkdir()
    with np.load(feeds, allow_pickle=False) as archive:
        arrays = dict(archive)
    for shape in recipe.all_shapes:
        batch = {}
        for spec in source.inputs:
            rows = np.take(arrays[spec.name], range(shape.batch), axis=0, mode="wrap")
            batch[spec.name] = np.ascontiguousarray(_crop(rows, spec.shape, shape.sizes))
        np.savez(folder / "shapes" / f"{shape.name}.npz", allow_pickle=False, **batch)


def _check_dimensions(source: Artifact, recipe: Recipe) -> None:
    known = {dim for spec in source.inputs for dim in spec.shape[1:] if isinstance(dim, str)}
    for shape in recipe.all_shapes:
        if unknown := sorted(shape.sizes.keys() - known - {"batch"}):
            raise HoneError(
                "recipe-invalid",
                f"The shape {shape.name!r} names {unknown[0]!r}, which is no dimension of the model.",
                why=f"Besides batch, the sizes of the model that may change are: {', '.join(sorted(known)) or 'none'}.",
                hint="Name one of these in the recipe's shapes, or leave it out.",
            )


def _crop(rows: NDArray[Any], dims: tuple[int | str, ...], sizes: dict[str, int]) -> NDArray[Any]:
    """Cut named dimensions beyond the batch to the sizes of a shape."""
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
    return rows
