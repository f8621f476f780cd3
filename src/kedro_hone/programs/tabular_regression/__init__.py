"""Columns or one table, and numbers to predict."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared import classes
from ..shared.arrays import Array, Arrays, find_output, read_table
from ..shared.errors import LabelsMismatchError

METRIC = "r2"
HIGHER_IS_BETTER = True

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model, or "target": the name of its array or column in the data
    "features": None,  # the columns, in the order of the model's input; by default all but the target
    "output": None,  # the output with the predictions; by default the first one
}


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn columns, or a table of (rows, features), into the model's inputs, and the values to predict into ``target``.

    Raises:
        UnreadableError: An input has no array, or a column is not numeric.
        LabelsMismatchError: The values to predict are not numbers.
    """
    feeds, labels = read_table(data, job, job["program"]["options"], aliases=classes.NUMBERS)
    if labels is None:
        return feeds, {}
    if labels.dtype.kind not in "biuf":
        raise LabelsMismatchError(f"the target holds {labels.dtype}, not numbers")
    return feeds, {"target": labels.reshape(len(labels), -1).astype(np.float64)}


def decode(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the model's predictions as (rows, targets)."""
    return find_output(outputs, options["output"]).astype(np.float64)


def check(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> None:
    """Refuse a number of targets per row that differs from the model's predictions (``LabelsMismatchError``)."""
    predicted, wanted = decode(outputs, options).shape[1], targets["target"].shape[1]
    if predicted != wanted:
        raise LabelsMismatchError(f"the model predicts {predicted} numbers for each row, and the data have {wanted}")


def find_doubt(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> str | None:
    """Return a doubt if the predictions are worse than the mean of the values to predict."""
    explained = metric(decode(outputs, options), targets, options)
    if explained > 0:
        return None
    return f"the predictions are no better than the mean (r2 {explained:.3g}): check that the numbers are the model's"


def score(predictions: Array, targets: Arrays, options: dict[str, Any]) -> None:
    """Return None: the coefficient of determination is not a mean over rows."""


def metric(predictions: Array, targets: Arrays, options: dict[str, Any]) -> float:  # noqa: ARG001 - part of every program
    """Return the coefficient of determination, averaged over the targets; 1 is perfect, 0 is as good as the mean."""
    wanted = targets["target"]
    residual = ((wanted - predictions) ** 2).sum(axis=0)
    total = ((wanted - wanted.mean(axis=0)) ** 2).sum(axis=0)
    missed = (residual != 0).astype(np.float64)  # a constant target is either missed or met
    return float((1 - np.divide(residual, total, out=missed, where=total != 0)).mean())
