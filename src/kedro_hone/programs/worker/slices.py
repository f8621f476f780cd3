"""Slices: the rows of a split divided by the values of one column, and candidates compared on each of them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .errors import ReportedError
from .metrics import Metric, import_positive
from .scores import Comparison, take_rows
from .splits import Array

Json = dict[str, Any]
MOST = 2000  # the largest number of slices: each needs rows enough to prove a limit
_MISSING = "missing"
_KEY = "hone.gates.slices.by"


def divide(data: dict[str, Array], by: str, options: Json) -> tuple[list[str], Array]:
    """Return the names of the slices, and for each row of the data the number of its slice (int64).

    A slice is one value of the column: missing values are one slice, and numbers that are equal are one value.

    Args:
        data: The arrays of the split by name, rows first.
        by: The name of one of them; the usual names of labels, such as ``label``, also find the program's labels.
        options: The program's options.

    Raises:
        ReportedError: ``recipe-invalid``: there is no such column, it has not one value for each row, or too many
            different ones.
    """
    column = _find_column(data, by, options)
    names = np.array([_name(value) for value in column.tolist()], dtype=object).astype(np.str_)
    known, codes = np.unique(names, return_inverse=True)
    if len(known) > MOST:
        why = f"it has {len(known)} different values, and there are {MOST} slices at most"
        hint = f"Write a column with groups of these values into the data, and name it: {_KEY}."
        raise ReportedError("recipe-invalid", f"The column {by!r} cannot divide the gate split.", why, hint=hint)
    return [import_positive().clean_name(str(name)) for name in known], codes.astype(np.int64).ravel()


def count(data: dict[str, Array], by: str, options: Json, *, metric: Metric) -> list[Json]:
    """Return the ``name`` and the number of rows ``n`` of each slice, before there is a model.

    For a metric that is a mean over classes, each slice also has the number of rows of each of its ``classes``.

    Raises:
        ReportedError: ``recipe-invalid``: as ``divide``; or the slices are classes, and the metric compares classes.
    """
    names, codes = divide(data, by, options)
    labels = _find_labels(data, options)
    shared = import_positive()
    compares = metric.one_class or shared.depends_on_classes(metric.name)
    if compares and labels is not None and data.get(by, labels) is labels:
        what = f"The metric {metric.name!r} is not defined on the rows of one class."
        why = f"gates.slices.by is {by!r}: each slice has the rows of one label"
        hint = (
            "Take a metric of rows, such as accuracy (hone.program.metric), or another column (hone.gates.slices.by)."
        )
        raise ReportedError("recipe-invalid", what, why, hint=hint)
    rows = [codes == number for number in range(len(names))]
    found: list[Json] = [{"name": name, "n": int(own.sum())} for name, own in zip(names, rows, strict=True)]
    if metric.strata is not None and labels is not None and labels.size == len(codes):
        texts = np.array([str(label) for label in labels.ravel()])
        for one, own in zip(found, rows, strict=True):
            one["classes"] = [int(size) for size in np.unique(texts[own], return_counts=True)[1]]
    return found


class SlicedComparison:
    """Compares candidates with the source on the rows of each slice.

    Args:
        whole: The comparison on all rows. Its metric, its positive class and its span are those of each slice.
        codes: The number of each row's slice (int64).
        count: How many slices there are.
    """

    def __init__(self, whole: Comparison, codes: Array, count: int) -> None:
        self._whole = whole
        self._rows = [np.flatnonzero(codes == number) for number in range(count)]
        self._parts = [self._select(rows) for rows in self._rows]

    def compare(self, outputs: dict[str, Array]) -> list[Json]:
        """Return the result of ``Comparison.compare_predictions`` for each slice, with ``n``, the number of its rows.

        It has ``error``, a sentence, instead if the metric is not defined on the rows of the slice.
        """
        candidate = self._whole.decode(outputs)
        return [
            {"error": part} if isinstance(part, str) else _compare(part, take_rows(candidate, rows))
            for part, rows in zip(self._parts, self._rows, strict=True)
        ]

    def _select(self, rows: Array) -> Comparison | str:
        try:
            return self._whole.select(rows)
        except ReportedError as error:
            return f"{error.what} {error}"


def _compare(part: Comparison, candidate: Any) -> Json:
    try:
        return part.compare_predictions(candidate)
    except ReportedError as error:
        return {"error": f"{error.what} {error}"}


def _find_column(data: dict[str, Array], by: str, options: Json) -> Array:
    labels = _find_labels(data, options) if by in {"target", *_import_classes().LABELS} else None
    column = data.get(by, labels)
    if column is None:
        why = f"the data have {', '.join(data)}"
        what = f"The gate split has no column {by!r}."
        raise ReportedError("recipe-invalid", what, why, hint=f"Name one of them, or `label`: {_KEY}.")
    flat = _flatten(np.asarray(column))
    if flat.ndim != 1:
        why = f"it has the shape {column.shape}, and one value for each row is needed"
        hint = f"Name a column: {_KEY}."
        raise ReportedError("recipe-invalid", f"The array {by!r} cannot divide the gate split.", why, hint=hint)
    return flat


def _flatten(column: Array) -> Array:
    return column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column


def _find_labels(data: dict[str, Array], options: Json) -> Array | None:
    arrays = importlib.import_module("hone_programs.shared.arrays")
    found: Array | None = arrays.find_array(
        data, "target", arrays=options.get("arrays") or {}, aliases=_import_classes().LABELS
    )
    return found


def _import_classes() -> Any:
    """Return the shared module for classes; it can be imported after the program has been loaded."""
    return importlib.import_module("hone_programs.shared.classes")


def _name(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN, of any type
        return _MISSING
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
