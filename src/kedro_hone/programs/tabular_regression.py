"""Tables and numbers to predict. One file, numpy only, so that it can be handed to any toolchain's worker by path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

METRIC = "r2"
HIGHER_IS_BETTER = True

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model, or "target": the name of its array or column in the data
    "features": None,  # the columns, in the order of the model's input; all but the target when empty
    "output": None,  # the output that holds the predictions; the first one when empty
}

TABLES = ("x", "features", "data", "input")
LABELS = ("target", "targets", "y", "labels", "label")


class UnreadableError(ValueError):
    """The data are not what this program expects."""

    slug = "data-unreadable"


class LabelsMismatchError(ValueError):
    """The labels do not fit the model's outputs."""

    slug = "labels-mismatch"


def prepare(data: dict[str, Array], job: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Turn a table into the model's inputs.

    Args:
        data: Columns by name, or a table of (rows, features) and the numbers to predict.
        job: ``input`` with the model's ``inputs`` and ``outputs``, and ``program`` with the ``options``.

    Returns:
        The feeds by input, and the numbers to predict as ``target`` (nothing when the data have none).

    Raises:
        UnreadableError: An input has no array, or a column is no number.
        LabelsMismatchError: The numbers to predict are no numbers.
    """
    options = OPTIONS | job["program"]["options"]
    labels = find_array(data, "target", arrays=options["arrays"], aliases=LABELS)
    columns = {name: array for name, array in data.items() if array is not labels}
    feeds = read_features(columns, job["input"]["inputs"], options)
    if labels is None:
        return feeds, {}
    if labels.dtype.kind not in "biuf":
        raise LabelsMismatchError(f"the target holds {labels.dtype}, not numbers")
    return feeds, {"target": labels.reshape(len(labels), -1).astype(np.float64)}


def read_features(data: dict[str, Array], specs: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Array]:
    """Return the model's inputs from columns or tables.

    Args:
        data: Columns or tables by name, without the target.
        specs: The specifications of the model's inputs.
        options: This program's options.

    Returns:
        One array for each input.

    Raises:
        UnreadableError: An input has no array, or a column is not of the model's type.
    """
    if len(specs) == 1 and len(specs[0]["shape"]) == 2:
        name = specs[0]["name"]
        table = find_array(data, name, arrays=options["arrays"], aliases=TABLES)
        column = specs[0]["shape"][1] == 1 and (name in data or name in options["arrays"])
        if table is not None and (table.ndim == 2 or column):
            return {name: table.reshape(len(table), -1)}
        text = specs[0].get("dtype") == "str"
        return {name: stack_columns(data, options["features"] or list(data), text=text)}
    feeds = {}
    for spec in specs:
        column = find_array(data, spec["name"], arrays=options["arrays"], aliases=())
        if column is None:
            raise UnreadableError(f"no column for the model's input {spec['name']!r}; the data have {', '.join(data)}")
        feeds[spec["name"]] = column[:, None] if column.ndim == 1 and len(spec["shape"]) == 2 else column
    return feeds


def stack_columns(data: dict[str, Array], names: list[str], *, text: bool = False) -> Array:
    """Return columns of numbers, or of text, side by side, as (rows, columns)."""
    kinds, wanted = ("UO", "text") if text else ("biuf", "number")
    for name in names:
        if name not in data:
            raise UnreadableError(f"there is no column {name!r}; the data have {', '.join(data)}")
        if data[name].dtype.kind not in kinds or data[name].ndim != 1:
            raise UnreadableError(f"column {name!r} holds {data[name].dtype}, not one {wanted} for each row")
    if not names:
        raise UnreadableError("there are no columns beside the target")
    return np.stack([data[name] for name in names], axis=1)


def find_array(data: dict[str, Array], name: str, *, arrays: dict[str, str], aliases: tuple[str, ...]) -> Array | None:
    """Find the array of an input or of the target: as the options name it, else by its own name or a usual one."""
    if name in arrays:
        if arrays[name] not in data:
            raise UnreadableError(f"the option arrays names {arrays[name]!r}; the data have {', '.join(data)}")
        return data[arrays[name]]
    return next((data[known] for known in (name, *aliases) if known in data), None)


def decode(outputs: dict[str, Array], options: dict[str, Any]) -> Array:
    """Turn the model's outputs into predictions.

    Args:
        outputs: Arrays by name, rows first.
        options: This program's options.

    Returns:
        Predictions as (rows, targets).
    """
    name = (OPTIONS | options)["output"] or next(iter(outputs))
    if name not in outputs:
        raise LabelsMismatchError(f"the option output names {name!r}; the model has {', '.join(outputs)}")
    return outputs[name].reshape(len(outputs[name]), -1).astype(np.float64)


def check(outputs: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> None:
    """Refuse targets that are not as many for each row as the model predicts.

    Raises:
        LabelsMismatchError: They are not.
    """
    predicted, wanted = decode(outputs, options).shape[1], targets["target"].shape[1]
    if predicted != wanted:
        raise LabelsMismatchError(f"the model predicts {predicted} numbers for each row, and the data have {wanted}")


def score(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> None:
    """Return None: the coefficient of determination is no mean over rows."""


def metric(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> float:  # noqa: ARG001 - part of every program
    """Return the coefficient of determination, averaged over the targets; 1 is perfect, 0 is guessing the mean."""
    wanted = targets["target"]
    residual = ((wanted - predictions) ** 2).sum(axis=0)
    total = ((wanted - wanted.mean(axis=0)) ** 2).sum(axis=0)
    constant = total == 0  # such a target is either met or not
    return float(
        np.where(constant, np.where(residual == 0, 1.0, 0.0), 1 - residual / np.where(constant, 1, total)).mean()
    )
