"""Columns, or an array with rows first, and class numbers or names; the class with the largest score is predicted."""

from __future__ import annotations

from typing import Any

from ..shared import classes
from ..shared.arrays import Arrays, read_table

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model, or "target": the name of its array or column in the data
    "features": None,  # the columns, in the order of the model's input; by default all but the target
    "classes": None,  # names of the classes in the order of the model's outputs, if the labels are text
    "output": None,  # the output with the scores of the classes; by default the first one
    "scores": "probabilities",  # or "logits": the kind of these scores
    "positive": None,  # the class that metrics of one class, such as recall, are computed for; 1 of 0 and 1
}

METRIC, HIGHER_IS_BETTER = classes.METRIC, classes.HIGHER_IS_BETTER
check, decode, find_doubt = classes.check, classes.decode, classes.find_doubt
count_classes, count_rows = classes.count_classes, classes.count_rows
metric, probabilities, score = classes.metric, classes.probabilities, classes.score


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn columns, or a table of (rows, features), into the model's inputs, and labels into ``target``.

    Raises:
        UnreadableError: An input has no array, or a column is not numeric.
        LabelsMismatchError: The labels are not classes of the model.
    """
    options = job["program"]["options"]
    feeds, labels = read_table(data, job, options, aliases=classes.LABELS)
    return feeds, classes.read_targets(labels, job, options)
