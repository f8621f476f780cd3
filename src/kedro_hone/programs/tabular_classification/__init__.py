"""Columns or one table, and class numbers or names; the class with the largest score is predicted.

Workers of any toolchain may run it: it imports numpy only.
"""

from __future__ import annotations

from typing import Any

from ..shared.arrays import Array
from ..shared.classes import HIGHER_IS_BETTER, METRIC, Classes, metric, score
from ..shared.columns import read_table
from ..shared.labels import LABELS, read_targets

__all__ = [
    "HIGHER_IS_BETTER", "METRIC", "OPTIONS", "check", "count_rows", "decode", "find_doubt", "metric", "prepare",
    "probabilities", "score",
]  # fmt: skip

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model, or "target": the name of its array or column in the data
    "features": None,  # the columns, in the order of the model's input; all but the target when empty
    "classes": None,  # names of the classes in the order of the model's outputs, where the labels are text
    "output": None,  # the output that holds the classes; the first one when empty
    "scores": "probabilities",  # or "logits": what that output holds
}

_CLASSES = Classes(OPTIONS)
count_rows, decode, probabilities = _CLASSES.count_rows, _CLASSES.decode, _CLASSES.probabilities
check, find_doubt = _CLASSES.check, _CLASSES.find_doubt


def prepare(data: dict[str, Array], job: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Turn columns, or a table of (rows, features), into the model's inputs, and labels into ``target``.

    Raises:
        UnreadableError: An input has no array, or a column is no number.
        LabelsMismatchError: The labels are not classes of the model.
    """
    options = OPTIONS | job["program"]["options"]
    feeds, labels = read_table(data, job, options, aliases=LABELS)
    return feeds, read_targets(labels, job, options)
