"""The interface of an estimator around a session's ``run``: arrays, lists and DataFrames in, predictions out.

It wraps models that take microseconds, and inspecting a DataFrame takes as long as that. Workers import it, to time the
call that users make. So it imports nothing of kedro-hone but the neighbouring module.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .tensors import make_shape_check
from .texts import is_missing, mark_missing, restore_missing

if TYPE_CHECKING:
    from hone_runtime.values.artifact import Artifact, TensorSpec

    from .tensors import Arrays, Run

Array = np.ndarray[Any, Any]

_MOST_BYTES: Final = 64 << 20
"""Limit for all classes together, since a type of text declares how long each label may be."""
_FEW_ROWS: Final = 1024
"""Up to this size a DataFrame is read as one table of objects, which takes half the time of single columns."""


def make_predict(run: Run, artifact: Artifact) -> Callable[..., Array]:
    """Return ``predict``, which returns labels of the type of the source's classes, or numbers.

    Raises:
        ValueError: The output is missing, or has another type, rank or number of columns.
    """
    read = make_reading(artifact)
    if artifact.metadata["sklearn"].get("kind") == "classifier":
        _check_outputs(artifact, "label")
        dtype = read_classes(artifact).dtype

        def predict_labels(rows: Any) -> Array:
            label = run(read(rows))["label"]
            return label if label.dtype == dtype else label.astype(dtype)

        return predict_labels
    _check_outputs(artifact, "variable")
    flat = bool(artifact.metadata["sklearn"].get("flat"))

    def predict_numbers(rows: Any) -> Array:
        found = run(read(rows))["variable"]
        return found[:, 0] if flat else found

    return predict_numbers


def _check_outputs(artifact: Artifact, wanted: str) -> None:
    """Raise ``ValueError`` if the outputs are not those of the estimator in the metadata."""
    notes, specs = artifact.metadata["sklearn"], {spec.name: spec for spec in artifact.outputs}
    if wanted not in specs:
        raise ValueError(f"the output {wanted!r} of an estimator is missing; there are {sorted(specs)}")
    if notes.get("kind") != "classifier":
        _check_output(specs["variable"], rank=2, kinds="biuf", columns=1 if notes.get("flat") else None)
        return
    classes = read_classes(artifact)
    if "label" in specs:
        _check_output(specs["label"], rank=1, kinds="U" if classes.dtype.kind in "OU" else "biu")
    if "probabilities" in specs:
        _check_output(specs["probabilities"], rank=2, kinds="f", columns=len(classes))


def _check_output(spec: TensorSpec, *, rank: int, kinds: str, columns: int | None = None) -> None:
    """Raise ``ValueError`` if an output has another rank or number of columns, or a type of none of these kinds."""
    try:
        fits = np.dtype(spec.dtype).kind in kinds and len(spec.shape) == rank
    except TypeError:  # NumPy has no such type, for example bfloat16
        fits = False
    if not fits:
        wanted = {"U": "text", "biu": "whole numbers"}.get(kinds, "numbers")
        raise ValueError(
            f"the output {spec.name!r} must be {wanted} with the rank {rank}, not {spec.dtype} {list(spec.shape)}"
        )
    if columns is not None and isinstance(spec.shape[-1], int) and spec.shape[-1] != columns:
        raise ValueError(f"the output {spec.name!r} has {spec.shape[-1]} columns, where {columns} are expected")


def make_predict_proba(run: Run, artifact: Artifact) -> Callable[..., Array]:
    """Return ``predict_proba``: the probability of each class for each row, in the order of the source's classes.

    Raises:
        ValueError: The output is missing, or has another type, rank or number of columns.
    """
    _check_outputs(artifact, "probabilities")
    read = make_reading(artifact)

    def predict_proba(rows: Any) -> Array:
        return run(read(rows))["probabilities"]

    return predict_proba


def make_rows(artifact: Artifact, feeds: Mapping[str, Array]) -> Any:
    """Return arrays by name in the form in which callers of the source have their rows.

    If the source has column names, this is a DataFrame, as ``make_rows`` of scikit-learn's worker makes it for the
    source itself; without pandas, a dictionary of columns, or the matrix. If it has no column names: the matrix.
    """
    notes, specs = artifact.metadata["sklearn"], artifact.inputs
    names = notes.get("feature_names_in")
    if notes.get("split"):
        rows: Any = {
            spec.name: restore_missing(feeds[spec.name].ravel()) if spec.dtype == "str" else feeds[spec.name].ravel()
            for spec in specs
        }
    else:
        rows = feeds[specs[0].name]
    if not names or not importlib.util.find_spec("pandas"):
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=list(names))


def has_probabilities(artifact: Artifact) -> bool:
    """Return whether a source predicts the probability of each class."""
    kind = artifact.metadata["sklearn"].get("kind")
    return kind == "classifier" and any(spec.name == "probabilities" for spec in artifact.outputs)


def read_classes(artifact: Artifact) -> Array:
    """Return the classes of a source, in the order of its probabilities.

    Raises:
        ValueError: Their type is neither number nor text, or so long that they would fill the memory.
    """
    notes = artifact.metadata["sklearn"]
    classes, name = notes["classes"], str(notes["classes_dtype"])
    if not re.fullmatch(r"object|[<>|=]?[biufU]\d{1,9}", name):
        raise ValueError(f"its classes have the type {name!r:.80}")
    dtype = np.dtype(name)
    if len(classes) * dtype.itemsize > _MOST_BYTES:
        raise ValueError(f"its {len(classes)} classes of the type {name} would fill the memory")
    return np.array(classes, dtype)


def make_reading(artifact: Artifact) -> Callable[[Any], Arrays]:
    """Return a function that converts rows into the model's inputs, by name.

    The columns of a DataFrame, or of a table of Arrow or polars, are found by their names, in the order of the source's
    fit. Values of another type are cast to the model's type if that does not change them.

    The returned function raises ``ValueError`` for rows of another shape, for missing columns, and for fractions in an
    integer input; and ``TypeError`` for a text column with other values.
    """
    specs, notes = artifact.inputs, artifact.metadata["sklearn"]
    check, columns = make_shape_check(specs), notes.get("feature_names_in")
    if notes.get("split"):
        names, missing = [spec.name for spec in specs], frozenset(notes.get("missing", ()))

        def read_columns(rows: Any) -> Arrays:
            rows = _as_pandas(rows)
            feeds = _read_few(rows, specs, names, missing)
            if feeds is None:
                columns = zip(specs, _split(rows, names), strict=True)
                feeds = {spec.name: _read_column(spec, column, missing) for spec, column in columns}
            check(feeds)
            return feeds

        return read_columns
    (spec,) = specs
    name, dtype = spec.name, np.dtype(spec.dtype)

    def read_matrix(rows: Any) -> Arrays:
        if not isinstance(rows, np.ndarray):
            rows = _as_pandas(rows)
            rows = _select(rows, columns) if hasattr(rows, "columns") else np.asarray(rows)
        if rows.dtype != dtype:
            rows = _cast(name, rows, dtype)
        feeds = {name: rows}
        check(feeds)
        return feeds

    return read_matrix


def _as_pandas(rows: Any) -> Any:
    """Return a table of Arrow or polars as a DataFrame, since scikit-learn also finds these columns by name."""
    return rows.to_pandas() if hasattr(rows, "to_pandas") else rows


def _cast(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array in the type of its input; fractions may lose precision, but no other value changes.

    Raises:
        TypeError: It contains times or complex numbers.
        ValueError: A number is not whole, or is too large; NaN is not a whole number.
    """
    if array.dtype == dtype:
        return array
    if array.dtype.kind in "mMc":
        raise TypeError(f"{name} holds {array.dtype}; the model takes {dtype}")
    if dtype.kind not in "iub":
        try:
            return array.astype(dtype)
        except TypeError:  # for example None, or pandas' own missing value
            return _fill(array).astype(dtype)
    with np.errstate(invalid="ignore"):
        found = array.astype(dtype)
    if (changed := np.asarray(found != array)).any():
        raise ValueError(f"{name} holds {array[changed][0]!r}; the model takes {dtype}")
    return found


def _fill(array: Array) -> Array:
    """Return an array of objects with NaN for each missing number, such as pandas' ``NA``."""
    return np.array([np.nan if is_missing(one) else one for one in array.flat], object).reshape(array.shape)


def _select(frame: Any, columns: Sequence[str] | None) -> Array:
    """Return the columns that the source was fitted on; all columns if it has no names.

    Raises:
        ValueError: A column is missing.
    """
    if columns is not None:
        if missing := [name for name in columns if name not in frame.columns]:
            raise _explain_missing(missing, columns)
        frame = frame[list(columns)]
    found: Array = frame.to_numpy()
    if found.dtype == object:  # for example pandas' own missing value, which is NaN in an array of its column
        found = np.column_stack([np.asarray(frame.iloc[:, place]) for place in range(frame.shape[1])])
    return found


def _explain_missing(missing: Sequence[str], names: Sequence[str]) -> ValueError:
    """Return the error for rows without some of the columns that the source was fitted on."""
    few, more = ", ".join(map(str, missing[:5])), f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    subject = f"the column {few} is" if len(missing) == 1 else f"the columns {few}{more} are"
    return ValueError(f"{subject} missing; the model takes {', '.join(map(str, names))}")


def _read_few(rows: Any, specs: Sequence[TensorSpec], names: list[str], missing: Collection[str]) -> Arrays | None:
    """Return the inputs for a DataFrame of few rows with exactly these columns; None for other rows or unusual values.

    In a table of objects, pandas' missing value (``NA``) and times are other objects than in their own column.
    """
    columns: Any = getattr(rows, "columns", None)  # an Index of pandas; polars has a list
    if not hasattr(columns, "tolist") or len(rows) > _FEW_ROWS or columns.tolist() != names:
        return None
    # As objects: a table of numbers would round integers next to fractions.
    table = np.ascontiguousarray(rows.to_numpy(object).T)
    try:
        return {spec.name: _read_column(spec, column, missing) for spec, column in zip(specs, table, strict=True)}
    except (TypeError, ValueError, OverflowError):
        return None


def _split(rows: Any, names: Sequence[str]) -> Iterable[Array]:
    """Return each column of a DataFrame, of a dictionary of columns, or of a list or array of rows."""
    keys = rows.keys() if hasattr(rows, "keys") else None
    if keys is None:
        table = np.asarray(rows, object)
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(f"the rows have the shape {table.shape}; the model takes (rows, {len(names)})")
        return np.ascontiguousarray(table.T)
    if missing := [name for name in names if name not in keys]:
        raise _explain_missing(missing, names)
    return [np.asarray(rows[name]) for name in names]


def _read_column(spec: TensorSpec, column: Array, missing: Collection[str]) -> Array:
    """Return a column as an input.

    Missing values are allowed in fractions, and in the text columns that ``missing`` lists.
    """
    column = np.ascontiguousarray(column).reshape(-1, 1)
    if spec.dtype != "str":
        return _cast(spec.name, column, np.dtype(spec.dtype))
    if column.dtype.kind == "U" or {*map(type, column.ravel().tolist())} == {str}:
        return column
    if spec.name in missing:
        column = mark_missing(column)
    if strange := [one for one in column.flat if not isinstance(one, str)]:
        raise TypeError(f"{spec.name} holds {strange[0]!r}; the model takes text")
    return column.astype(str).astype(object)
