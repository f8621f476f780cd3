"""Rows for models specialized for some sizes: split, padded, and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tensors import Arrays, Run, match_shapes
from hone_runtime.sessions.shapes import find_fixed_batch, find_whole_outputs
from hone_runtime.values.artifact import Artifact, TensorSpec

BATCH = "batch"


def serve_any_rows(run: Run, artifact: Artifact) -> Run:
    """Return a function for any number of rows, given one for the static shapes of a model.

    Rows are cut into the available sizes; the last piece is padded with copies of its last row, whose results are
    dropped.
    """
    sizes = [shape.sizes for shape in artifact.static_shapes]
    names = [spec.name for spec in artifact.inputs]
    exact = {tuple(spec.resolve(size) for spec in artifact.inputs) for size in sizes}
    input_axes, output_axes = _find_axes(artifact.inputs), _find_axes(artifact.outputs)

    def serve(feeds: Arrays) -> Arrays:
        shapes = tuple([feeds[name].shape for name in names])
        if shapes in exact:
            return run(feeds)
        requested = match_shapes(artifact.inputs, shapes)
        if requested.get(BATCH) == 0:
            raise ValueError("there are no rows")
        pieces: list[Arrays] = []
        start = 0
        for size, used in plan_pieces(requested[BATCH], _list_batches(requested, sizes)):
            outputs = run({name: _cut(array, input_axes[name], start, used, size) for name, array in feeds.items()})
            pieces.append({name: _cut(array, output_axes[name], 0, used, used) for name, array in outputs.items()})
            start += used
        return {name: _join([piece[name] for piece in pieces], output_axes[name], name) for name in pieces[0]}

    return serve


def serve_fixed_rows(run: Run, artifact: Artifact) -> Run:
    """Return a function that runs a fixed-batch model on any number of rows, in the same way as in the measurement.

    Rows are cut into batches, and the last batch is filled with copies of its last row. The results are concatenated.
    For any other model the same function is returned.
    """
    size = find_fixed_batch(spec.shape for spec in artifact.inputs)
    if size is None or artifact.static_shapes:
        return run
    names = [spec.name for spec in artifact.inputs if spec.shape]
    specs = [[spec.model_dump() for spec in side] for side in (artifact.inputs, artifact.outputs)]
    whole = find_whole_outputs(*specs)

    def serve(feeds: Arrays) -> Arrays:
        rows = min(len(feeds[name]) for name in names)
        if rows <= size and all(len(feeds[name]) == size for name in names) and not whole:
            return run(feeds)
        pieces: list[Arrays] = []
        for start in range(0, rows, size):
            used = min(size, rows - start)
            cut = {name: _cut(feeds[name], 0, start, used, size) for name in names}
            outputs = run({**feeds, **cut})
            single = {name for name in whole if outputs[name].shape[:1] != (1,)}
            outputs = {name: array[None] if name in single else array for name, array in outputs.items()}
            pieces.append({name: array[:used] if array.ndim else array for name, array in outputs.items()})
        return {name: np.concatenate([np.atleast_1d(piece[name]) for piece in pieces]) for name in pieces[0]}

    return serve


def plan_pieces(rows: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Cut rows (at least one) into pieces of given sizes, the largest first; return each one's size and real rows."""
    pieces = []
    while rows > 0:
        fitting = [size for size in sizes if size <= rows]
        covering = [size for size in sizes if size >= rows]
        # One call that is at least half full is faster than two calls.
        if covering and (not fitting or min(covering) <= 2 * rows):
            pieces.append((min(covering), rows))
            break
        pieces.append((max(fitting), max(fitting)))
        rows -= max(fitting)
    return pieces


def _find_axes(specs: Sequence[TensorSpec]) -> dict[str, int | None]:
    return {spec.name: spec.shape.index(BATCH) if BATCH in spec.shape else None for spec in specs}


def _list_batches(requested: dict[str, int], sizes: list[dict[str, int]]) -> list[int]:
    """Return the batch sizes of the specializations whose other sizes match the requested ones."""
    others = {name: size for name, size in requested.items() if name != BATCH}
    batches = [size[BATCH] for size in sizes if BATCH in size and others.items() <= size.items()]
    if not batches:
        raise HoneError(
            "model-unsupported",
            f"The model was not compiled for the sizes {requested}.",
            why=f"It serves {sizes}; only the number of rows is free.",
            hint="Add the sizes to the recipe's shapes and optimize the model again.",
        )
    return batches


def _cut(array: np.ndarray[Any, Any], axis: int | None, start: int, used: int, size: int) -> np.ndarray[Any, Any]:
    """Take ``used`` rows from ``start`` on, and repeat the last one up to ``size`` rows."""
    if axis is None or array.shape[axis] == used == size:
        return array
    return array.take(np.minimum(np.arange(start, start + size), start + used - 1), axis=axis)


def _join(arrays: list[np.ndarray[Any, Any]], axis: int | None, name: str) -> np.ndarray[Any, Any]:
    if len(arrays) == 1:
        return arrays[0]
    if axis is None:
        raise HoneError(
            "model-unsupported",
            f"The model's output {name!r} cannot be put together from pieces.",
            why="It has no row for each row of the input, and the model was compiled for fewer rows than were given.",
            hint="Give as many rows as one of the model's shapes has.",
        )
    return np.concatenate(arrays, axis=axis)
