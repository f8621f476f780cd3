"""The features of tables: one array, or columns by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array, find_array, read_inputs
from .errors import UnreadableError

TABLES = ("x", "features", "data", "input")
"""The usual names of a whole table."""


def read_table(
    data: dict[str, Array], job: dict[str, Any], options: dict[str, Any], *, aliases: tuple[str, ...]
) -> tuple[dict[str, Array], Array | None]:
    """Return the model's inputs from columns or tables, and the target's array (None when the data have none).

    Raises:
        UnreadableError: An input has no array, or a column is not of the model's type.
    """
    target = find_array(data, "target", arrays=options["arrays"], aliases=aliases)
    columns = {name: array for name, array in data.items() if array is not target}
    return read_features(columns, job["input"]["inputs"], options), target


def read_features(data: dict[str, Array], specs: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Array]:
    """Return one array for each of the model's inputs (``specs``) from columns or tables without the target.

    Raises:
        UnreadableError: An input has no array, or a column is not of the model's type.
    """
    if len(specs) == 1 and len(specs[0]["shape"]) == 2:
        name = specs[0]["name"]
        arrays = options["arrays"]
        arrays = {**arrays, name: arrays["input_0"]} if "input_0" in arrays and name not in arrays else arrays
        table = find_array(data, name, arrays=arrays, aliases=(*TABLES, "input_0"))
        column = specs[0]["shape"][1] == 1 and (name in data or name in arrays)
        if table is not None and (table.ndim == 2 or column):
            return {name: table.reshape(len(table), -1)}
        text = specs[0].get("dtype") == "str"
        return {name: _stack_columns(data, options["features"] or list(data), text=text)}
    columns = read_inputs(data, specs, options["arrays"], kind="column")
    flat = {spec["name"] for spec in specs if len(spec["shape"]) == 2}
    return {name: array[:, None] if array.ndim == 1 and name in flat else array for name, array in columns.items()}


def _stack_columns(data: dict[str, Array], names: list[str], *, text: bool) -> Array:
    """Return columns of numbers, or of text, next to each other, as (rows, columns)."""
    kinds, wanted = ("UO", "text") if text else ("biuf", "number")
    for name in names:
        if name not in data:
            raise UnreadableError(f"there is no column {name!r}; the data have {', '.join(data)}")
        if data[name].dtype.kind not in kinds or data[name].ndim != 1:
            raise UnreadableError(f"column {name!r} holds {data[name].dtype}, not one {wanted} for each row")
    if not names:
        raise UnreadableError("there are no columns but the target")
    return np.stack([data[name] for name in names], axis=1)
