"""Rows for comparing a converted net beyond the calibration data, and calls of nets with a fixed number of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hone_runtime.conversion import agreement

Json = dict[str, Any]
Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
Run = Callable[[Arrays], Arrays]

_MOST_ROWS, _MOST_BYTES = 32, 8 << 20
_CHANGED = 4
"""The number of rows in which an input is changed."""


def choose(feeds: Arrays) -> list[int]:
    """Return the indices of the calibration rows to compare: fewer if the rows are large."""
    count = len(next(iter(feeds.values())))
    size = sum(array.nbytes for array in feeds.values()) // max(count, 1)
    return list(agreement.choose(count, max(_CHANGED, min(_MOST_ROWS, _MOST_BYTES // max(size, 1)))))


def fit(feeds: Arrays, specs: Sequence[Json], key: Sequence[Sequence[int]]) -> dict[str, Array]:
    """Return rows in the sizes of a shape: along each other axis they are cut, or repeated."""
    fitted = {}
    for spec, sizes in zip(specs, key, strict=True):
        array = feeds[spec["name"]]
        for axis, size in enumerate(sizes[1:], 1):
            array = array.take(np.arange(size) % array.shape[axis], axis=axis)
        fitted[spec["name"]] = array
    return fitted


def make_probes(feeds: Arrays, specs: Sequence[Json], agreeing: list[int], *, dynamic: bool) -> Iterator[Any]:
    """Yield calibration rows in which one input is changed, and rows of other sizes.

    Each input is set to zeros, to the smallest and the largest values of the data, and beyond these if it has integers.
    No input is set to NaN: the result of a maximum with NaN is not a property of the net.

    Args:
        feeds: The calibration data.
        specs: The specs of the inputs.
        agreeing: The indices of the rows to change.
        dynamic: Whether the converted model accepts other sizes of dynamic dimensions.
    """
    rows = [agreeing[place] for place in agreement.choose(len(agreeing), _CHANGED)]
    taken = {name: array[rows] for name, array in feeds.items()}
    for name, array in feeds.items():
        for kind, value, what in _list_values(array):
            made = {**taken, name: taken[name].copy()}
            made[name][...] = value
            yield _make(kind, made, rows, f"of the calibration data with {name!r} set to {what}")
    yield _make("alone", {name: array[:1] for name, array in taken.items()}, rows[:1], "of the calibration data, alone")
    names = sorted({dim for spec in specs for dim in spec["shape"][1:] if isinstance(dim, str)})
    for dim in names if dynamic else ():
        for share in (0.5, 0.0):
            made = {spec["name"]: _cut(taken[spec["name"]], spec["shape"], dim, share) for spec in specs}
            size = next(made[s["name"]].shape[s["shape"].index(dim)] for s in specs if dim in s["shape"])
            yield _make("size", made, rows, f"of the calibration data, cut to {dim} {size},")


def _make(kind: str, feeds: Arrays, rows: list[int], what: str) -> Any:
    alike = all(np.array_equal(array, np.broadcast_to(array[:1], array.shape)) for array in feeds.values())
    return agreement.Probe(kind, feeds, rows, [agreement.Part(what, slice(None))], alike)


def _cut(array: Array, shape: Sequence[int | str], dim: str, share: float) -> Array:
    for axis, name in enumerate(shape):
        if name == dim and axis:
            array = array.take(np.arange(max(1, int(array.shape[axis] * share))), axis=axis)
    return array


def _list_values(array: Array) -> Iterator[tuple[str, Any, str]]:
    """Yield the values for an input: the kind, the value, and its description."""
    yield "zero", 0, "zeros"
    if array.dtype.kind not in "biuf" or not array.size:
        return
    if array.dtype.kind == "f":
        array = np.where(np.isfinite(array), array, array.dtype.type(0))
    yield "smallest", array.min(axis=0), "the smallest values"
    yield "largest", array.max(axis=0), "the largest values"
    if array.dtype.kind in "iu" and array.max() < np.iinfo(array.dtype).max:
        yield "next", array.max() + 1, f"{int(array.max()) + 1}, which does not occur"


def call_in_batches(run: Run, size: int, names: Collection[str]) -> Run:
    """Return a call for any number of rows, for a model with a fixed number: the last call is filled with copies.

    It returns only the named outputs, which have a row for each row of the inputs.
    """

    def call(feeds: Arrays) -> Arrays:
        count = len(next(iter(feeds.values())))
        places = np.minimum(np.arange(-(-count // size) * size), count - 1)
        parts = [
            run({name: np.ascontiguousarray(array[some]) for name, array in feeds.items()})
            for some in np.split(places, len(places) // size)
        ]
        return {name: np.concatenate([part[name] for part in parts])[:count] for name in names}

    return call
