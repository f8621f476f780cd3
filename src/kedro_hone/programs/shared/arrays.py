"""Arrays of the data, found by the options of a program or by their usual names, and tables as the model's inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import check_count, choose_columns, list_names, warn_of_others
from .errors import LabelsMismatchError, UnreadableError

Array = NDArray[Any]
Arrays = dict[str, Array]

TABLES = ("x", "features", "data", "input")  # the usual names of a whole table


def find_array(data: Arrays, name: str, *, arrays: dict[str, str], aliases: tuple[str, ...] = ()) -> Array | None:
    """Find the array of an input or of the target: by the name in the options, its own name, or a usual one."""
    if name in arrays:
        if arrays[name] not in data:
            raise UnreadableError(f"the option arrays names {arrays[name]!r}; the data have {', '.join(data)}")
        return data[arrays[name]]
    return next((data[known] for known in (name, *aliases) if known in data), None)


def _find_input(
    data: Arrays, index: int, names: list[str], *, arrays: dict[str, str], aliases: tuple[str, ...]
) -> Array | None:
    """Find the array of one of the model's inputs, by its name or its number."""
    name, number = names[index], f"input_{index}"
    known = (*(aliases if len(names) == 1 else ()), *(() if number in names else (number,)))
    named = {name: arrays[number], **arrays} if number in arrays else arrays
    return find_array(data, name, arrays=named, aliases=known)


def read_inputs(
    data: Arrays, specs: list[dict[str, Any]], arrays: dict[str, str], *, kind: str, aliases: tuple[str, ...] = ()
) -> Arrays:
    """Return the array of each of the model's inputs (``specs``), by its name or its number, as ``input_0``.

    A single input may have one of several usual names.

    Raises:
        UnreadableError: An input has no array; ``kind`` is its description in the message.
    """
    feeds = {}
    names = [spec["name"] for spec in specs]
    for index, name in enumerate(names):
        array = _find_input(data, index, names, arrays=arrays, aliases=aliases)
        if array is None:
            what = f"no {kind} for the model's input {name!r}; the data have {', '.join(data)}"
            example = f"`hone.program.options.arrays: {{{name}: {next(iter(data), kind)}}}`"
            raise UnreadableError(f"{what}; name it by {example}")
        feeds[name] = array
    return feeds


def read_table(
    data: Arrays, job: dict[str, Any], options: dict[str, Any], *, aliases: tuple[str, ...]
) -> tuple[Arrays, Array | None]:
    """Return the model's inputs from columns or tables, and the target's array (None if the data have none).

    Columns are those in the option ``features``, otherwise those that the model has by name, in its order. Others are
    left out with a warning.

    Raises:
        UnreadableError: An input has no array, or a column is missing, or is not of the model's type.
    """
    arrays, specs = options["arrays"], job["input"]["inputs"]
    target = find_array(data, "target", arrays=arrays, aliases=aliases)
    data = {name: array for name, array in data.items() if array is not target}
    flat = {spec["name"] for spec in specs if len(spec["shape"]) == 2}
    if len(specs) > 1 or not flat:
        columns = read_inputs(data, specs, arrays, kind="column")
        warn_of_others([name for name, array in data.items() if not any(array is one for one in columns.values())])
        feeds = {name: rows[:, None] if rows.ndim == 1 and name in flat else rows for name, rows in columns.items()}
        return feeds, target
    name = specs[0]["name"]
    table = _find_input(data, 0, [name], arrays=arrays, aliases=TABLES)
    column = specs[0]["shape"][1] == 1 and (name in data or not arrays.keys().isdisjoint((name, "input_0")))
    if table is not None and (table.ndim == 2 or column):
        return {name: table.reshape(len(table), -1)}, target
    text = specs[0].get("dtype") == "str"
    chosen = options["features"] or choose_columns(list(data), list_names(job))
    stacked = _stack_columns(data, chosen, text=text)
    check_count(chosen, specs[0]["shape"][1])
    return {name: stacked}, target


def _stack_columns(data: Arrays, names: list[str], *, text: bool) -> Array:
    """Return columns of numbers, or of text, next to each other, as (rows, columns)."""
    kinds, wanted = ("UO", "text") if text else ("biuf", "number")
    for name in names:
        if name not in data:
            raise UnreadableError(f"there is no column {name!r}; the data have {', '.join(data)}")
        if data[name].dtype.kind not in kinds or data[name].ndim != 1:
            example = _find_example(data[name], numbers=not text)
            raise UnreadableError(f"column {name!r} holds {data[name].dtype}, not one {wanted} for each row{example}")
    if not names:
        raise UnreadableError("there are no columns but the target")
    return np.stack([data[name] for name in names], axis=1)


def _find_example(column: Array, *, numbers: bool) -> str:
    """Return words with the first value of a column that is not of the wanted kind; empty if it has several axes."""
    if column.ndim != 1:
        return ""
    row = next((row for row, value in enumerate(column) if numbers != isinstance(value, int | float | np.number)), None)
    return "" if row is None else f"; row {row} has {str(column[row])[:40]!r}"


def find_output(outputs: Arrays, name: str | None) -> Array:
    """Return the output that an option names, or the first one, as (rows, numbers).

    Raises:
        LabelsMismatchError: The model has no output of that name.
    """
    name = name or next(iter(outputs))
    if name not in outputs:
        raise LabelsMismatchError(f"the option output names {name!r}; the model has {', '.join(outputs)}")
    return outputs[name].reshape(len(outputs[name]), -1)


def choose_best(scores: Array) -> Array:
    """Return the index of the largest score on the last axis, as int64; -1 if it is not finite, or one is NaN.

    Scores of ``-inf`` are those of classes that a model excludes, which are never chosen.
    """
    return np.where(np.isfinite(scores.max(axis=-1)), scores.argmax(axis=-1), -1)
