"""Rows with several classes: labels as 0 and 1 for each class, and F1 over all decisions (micro-averaged)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared.arrays import Array, Arrays, find_output
from ..shared.errors import LabelsMismatchError
from ..shared.ratios import measure_f1

METRIC = "f1_micro"


def read(labels: Array, names: list[str] | None) -> Array:
    """Return labels as (rows, classes) of 0 and 1, from such a table, or from a list of names or numbers for each row.

    Raises:
        LabelsMismatchError: A label is not a class of the model, or the number of classes is unknown.
    """
    if labels.ndim == 2:
        if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
            raise LabelsMismatchError("the table of labels holds something else than 0 and 1")
        if names and labels.shape[1] != len(names):
            raise LabelsMismatchError(
                f"the table of labels has {labels.shape[1]} columns; the model has {len(names)} classes"
            )
        return labels.astype(np.int64)
    if not names:
        raise LabelsMismatchError("the labels are lists, and the classes are not known: hone.program.options.classes")
    numbers = {str(name): number for number, name in enumerate(names)} | {at: at for at in range(len(names))}
    table = np.zeros((len(labels), len(names)), dtype=np.int64)
    for row, own in enumerate(labels):
        for label in (
            np.asarray(own).tolist() if isinstance(own, np.ndarray) else own if isinstance(own, list) else [own]
        ):
            if label not in numbers:
                raise LabelsMismatchError(f"row {row} has the label {label!r}, which is not a class of the model")
            table[row, numbers[label]] = 1
    return table


def compute_probabilities(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the independent probability of each class, as (rows, classes)."""
    scores = find_output(outputs, options["output"]).astype(np.float64)
    return scores if options["scores"] == "probabilities" else 1 / (1 + np.exp(-scores.clip(-700, 700)))


def decode(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return 1 for each class that is at least as likely as the option ``threshold``, otherwise 0."""
    return np.asarray(compute_probabilities(outputs, options) >= options["threshold"], dtype=np.int64)


def tally(predictions: Array, labels: Array) -> Array:
    """Return for each row the numbers of right, of predicted and of true classes."""
    return np.stack([(predictions & labels).sum(axis=1), predictions.sum(axis=1), labels.sum(axis=1)], axis=1)


def measure(sums: Array) -> float:
    """Return the F1 from the sums over rows."""
    return measure_f1(*sums)
