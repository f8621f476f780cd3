"""Convert a program's prepared split for the model, and find rows that are in two splits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hone_runtime.interfaces import texts

from .axes import explain_counts
from .errors import ReportedError

Array = NDArray[Any]
TABLE = "table_"  # the prefix of targets without a row for each row of the data; see shared/targets.py

_FILL = (
    "Fill the cell with what the model was trained with, or leave the row out; then dvc add, git commit and dvc push."
)
_AS_TRAINED = "give them as the numbers or text that the model was trained with"


def fit_feeds(
    feeds: Mapping[str, Any], specs: list[dict[str, Any]], *, split: str, missing: Collection[str] = ()
) -> dict[str, Array]:
    """Cast a program's prepared arrays to the model's inputs (``specs``), in their order: contiguous, with rows first.

    In the inputs named in ``missing``, a missing text is replaced by the text for it.

    Raises:
        ReportedError: ``data-unreadable``, ``data-empty`` or ``source-not-rowwise``.
    """

    def misfit(why: str, *, hint: str = "") -> ReportedError:
        return ReportedError("data-unreadable", f"The {split} split does not fit the model.", why, hint=hint)

    names = {spec["name"] for spec in specs}
    if feeds.keys() != names:
        raise misfit(f"the program returned {sorted(feeds)}, and the model takes {sorted(names)}")
    fitted: dict[str, Array] = {}
    sizes: dict[str, int] = {}
    for name, dtype, shape in ((spec["name"], spec["dtype"], spec["shape"]) for spec in specs):
        array = np.asarray(feeds[name])
        if array.ndim == 1 and list(shape[1:]) == [1]:  # a column, for a model that takes a table with one column
            array = array[:, None]
        if name in missing and dtype == "str":
            array = _mark_missing(array)
        absent = None
        problem = _find_misfit(array, shape, sizes) or (absent := _find_missing(array, dtype))
        if problem := problem or find_lossy_cast(array, dtype):
            raise misfit(f"input {name!r}: {problem}", hint=_FILL if absent else "")
        fitted[name] = np.ascontiguousarray(array.astype(dtype))
    counts = {name: len(array) for name, array in fitted.items()}
    if len(set(counts.values())) > 1:
        shapes = {name: array.shape for name, array in fitted.items()}
        raise explain_counts(shapes, specs) or misfit(f"the inputs have different numbers of rows: {counts}")
    if not any(counts.values()):
        raise ReportedError("data-empty", f"The {split} split has no rows.", "the program prepared none from it")
    return fitted


def _mark_missing(array: Array) -> Array:
    """Return a column of text with missing values as text, too; a column without any value is one of numbers."""
    empty = array.dtype.kind == "f" and bool(np.isnan(array).all())
    return texts.mark_missing(array.astype(object)) if empty or array.dtype.kind == "O" else array


def _find_missing(array: Array, dtype: str) -> str | None:
    """Return which row has no value if the model takes text or whole numbers, which cannot be missing."""
    wanted = {"U": "text", "i": "whole numbers", "u": "whole numbers", "b": "truth values"}
    kind = wanted.get(np.dtype(dtype).kind) if _is_known(dtype) else None
    if kind is None or array.dtype.kind not in "Of" or (kind == "text" and array.dtype.kind == "f"):
        return None
    rows = array.reshape(len(array), -1)
    found = np.isnan(rows).any(axis=1) if array.dtype.kind == "f" else [any(map(texts.is_missing, row)) for row in rows]
    if not (places := np.flatnonzero(found)).size:
        return None
    said = f"row {places[0]} (line {places[0] + 2} of a .csv file) has no value, and the model takes {kind} there"
    return said + (f"; so have {len(places) - 1} more rows" if len(places) > 1 else "")


def _is_known(dtype: str) -> bool:
    try:
        np.dtype(dtype)
    except TypeError:
        return False
    return True


def count_not_finite(feeds: Mapping[str, Array]) -> tuple[int, list[str]]:
    """Return how many rows have numbers that are not finite, and in which inputs; for some models NaN is missing."""
    odd = {
        name: (~np.isfinite(array.reshape(len(array), -1))).any(axis=1)
        for name, array in feeds.items()
        if array.dtype.kind in "fc"
    }
    names = [name for name, rows in odd.items() if rows.any()]
    return (int(np.any([odd[name] for name in names], axis=0).sum()), names) if names else (0, [])


def describe_not_finite(found: Mapping[str, tuple[int, int, Sequence[str]]]) -> Iterator[str]:
    """Yield one line for all splits: by the split's label, how many rows are not finite, all rows, and the inputs."""
    odd = {label: one for label, one in found.items() if one[0]}
    if odd:
        names = list(dict.fromkeys(name for _, _, several in odd.values() for name in several))
        listed = ", ".join(map(repr, names[:5])) + (" and others" if len(names) > 5 else "")
        counts = ", ".join(f"{label}: {count} of {rows}" for label, (count, rows, _) in odd.items())
        yield f"{counts} rows hold numbers that are not finite, in {listed}"


def _find_misfit(array: Array, shape: list[int | str], sizes: dict[str, int]) -> str | None:
    """Return why an array does not have a shape, with any number of rows; ``sizes`` is filled for named dimensions."""
    wanted = f"shape {array.shape} does not fit {tuple(shape)}"
    if array.ndim != len(shape):
        return wanted
    if not shape:
        return "it has no rows"
    for size, dim in zip(array.shape[1:], shape[1:], strict=True):
        known = sizes.setdefault(dim, size) if isinstance(dim, str) else dim
        if known != size:
            return wanted if isinstance(dim, int) else f"{wanted}: {dim} is {known} elsewhere"
    return None


def find_lossy_cast(array: Array, dtype: str) -> str | None:
    """Return why an array cannot become another element type (numpy's name) without changing its meaning, or None.

    Rounding to a float of lower precision does not change the meaning; becoming infinite does. Numbers and missing
    values are never converted to text implicitly.
    """
    try:
        target = np.dtype(dtype)
    except TypeError:
        return f"the model wants {dtype}, which numpy does not have"
    given = array.dtype
    if given == target or given.kind == target.kind == "U":
        return None
    if target.kind == "U":
        return _find_no_text(array)
    if target.kind not in "biuf":
        return f"the model wants {dtype}, and the data are {given}"
    if given.kind not in "biuf":
        return f"the data are {_describe(array)}, not numbers"
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(target)
    pair = (np.isfinite(cast), np.isfinite(array)) if target.kind == "f" else (cast, array)
    return None if np.array_equal(*pair) else f"the data are {given}, and some do not fit {dtype}"


def _find_no_text(array: Array) -> str | None:
    if array.dtype.kind != "O":
        return f"the model takes text, and the data are {_describe(array)}"
    strange = ((at[0], value) for at, value in np.ndenumerate(array) if not isinstance(value, str))
    row, value = next(strange, (None, None))
    return None if row is None else f"row {row} holds {value!r:.80}, not text"


def _describe(array: Array) -> str:
    """Return a noun for the elements of an array; for dates and times, also what to do about them."""
    dated = array.dtype.kind in "mM" or any(isinstance(value, date | time | timedelta) for value in array.flat[:1])
    return f"dates or times ({_AS_TRAINED})" if dated else str(array.dtype)


def fit_targets(targets: Mapping[str, Any], rows: int, *, split: str, needed: bool) -> dict[str, Array]:
    """Return the targets that a program prepared as arrays, one for each row; without labels there may be none.

    Raises:
        ReportedError: ``labels-mismatch``, or ``data-unreadable`` if there are none and some are needed.
    """
    arrays = {name: np.asarray(value) for name, value in targets.items()}
    if needed and not arrays:
        why = "the program found none, and candidates cannot be scored without"
        raise ReportedError("data-unreadable", f"The {split} split has no labels.", why)
    for name, array in arrays.items():
        if array.dtype.kind == "O" or array.ndim == 0:
            what = f"The {split} split cannot be used."
            raise ReportedError("data-unreadable", what, f"{name!r} is not an array of numbers")
        if len(array) != rows and not name.startswith(TABLE):
            why = f"{name!r} has {len(array)} rows, and the inputs have {rows}"
            raise ReportedError("labels-mismatch", f"The labels of the {split} split do not fit its rows.", why)
    return arrays


def hash_rows(feeds: Mapping[str, Array]) -> list[bytes]:
    """Hash each row over all its inputs, as passed to the model, by BLAKE2b with 16 bytes.

    Tokens at the end of a row that ``attention_mask`` excludes do not count: splits are padded to different lengths.
    Nor do inputs of a decoder if there are others: they are made from the labels.
    """
    mask, ends = feeds.get("attention_mask"), _find_ends(feeds.get("attention_mask"))
    names = sorted(name for name in feeds if not name.startswith("decoder_")) or sorted(feeds)
    masked = {name for name in names if mask is not None and feeds[name].shape == mask.shape}
    inputs = [_encode_rows(feeds[name], ends if name in masked else None) for name in names]
    return [hashlib.blake2b(b"".join(parts), digest_size=16).digest() for parts in zip(*inputs, strict=True)]


def _find_ends(mask: Array | None) -> Array | None:
    """Return how many columns of each row count: up to the last one that a mask (rows, columns) includes."""
    if mask is None or mask.ndim != 2 or not mask.shape[1]:
        return None
    return np.where(mask.any(axis=1), mask.shape[1] - (mask[:, ::-1] != 0).argmax(axis=1), 0)


def _encode_rows(array: Array, ends: Array | None) -> Iterator[bytes]:
    """Yield the bytes of each row; for text the text itself, independent of the split's longest text."""
    for at, row in enumerate(array.reshape(len(array), -1)):
        if row.dtype.kind == "U":
            yield json.dumps(row.tolist()).encode()
        else:
            yield (row if ends is None else row[: ends[at]]).tobytes()
