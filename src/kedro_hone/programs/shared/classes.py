"""Classes: labels as numbers, checked, and the outputs of classifiers as classes and probabilities.

The functions are those of a classification program. They require the complete options, including ``arrays``,
``classes`` (their names), ``output`` (its name) and ``scores`` (``logits`` or ``probabilities``). The worker reads
``positive``, the name of the class for metrics of one class.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .arrays import Array, Arrays, choose_best, find_array, find_output
from .columns import list_some
from .errors import LabelsMismatchError
from .positive import NAMES
from .ratios import RowMetric

METRIC = "accuracy"
HIGHER_IS_BETTER = True
LABELS = ("labels", "label", "target", "targets", "y")  # the usual names of their array
NUMBERS = (*LABELS[2:], *LABELS[:2])  # those of numbers to predict

_OFTEN = 5  # rows of one label: a model trained on this label would predict it at least once among them
_NAME_THEM = "name the classes in the order of the model's outputs: hone.program.options.classes"
_FROM_ZERO = "count from 0; subtract 1 from each label, or name the classes in order: hone.program.options.classes"


def find_labels(data: Arrays, options: dict[str, Any]) -> Array | None:
    """Return the unchanged array of the labels in the data; None if absent."""
    return find_array(data, "target", arrays=options["arrays"], aliases=LABELS)


def count_rows(data: Arrays, options: dict[str, Any]) -> int | None:
    """Return how many rows can be right or wrong, before there is a model: they must prove the gate's limit."""
    labels = find_labels(data, options)
    return None if labels is None else len(labels)


def count_classes(data: Arrays, options: dict[str, Any]) -> list[int]:
    """Return the number of rows of each class, before there is a model; empty without one label for each row."""
    labels = find_labels(data, options)
    if labels is None or labels.size != len(labels):
        return []
    return [int(count) for count in np.unique([str(label) for label in labels.ravel()], return_counts=True)[1]]


def read_targets(
    labels: Array | None, job: dict[str, Any], options: dict[str, Any], *, named_by: str = "the option classes"
) -> Arrays:
    """Return labels, numbers or names, as ``target``, or nothing if there are none; with the names of the numbers.

    ``named_by`` is the origin of the names in ``options["classes"]`` for error messages.

    They are class numbers as int64, checked against the specifications of the model's outputs; text if the model's
    output is text and no classes are given.

    Raises:
        LabelsMismatchError: They are not classes of the model.
    """
    if labels is None:
        return {}
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise LabelsMismatchError(f"labels have shape {labels.shape}; one class for each row is needed")
    outputs = job["input"].get("outputs", [])
    output = next((spec for spec in outputs if options["output"] in (None, spec["name"])), None)
    classes = _count_classes(output)
    if options["classes"]:
        target = _number_labels(labels, options["classes"], classes, named_by)
        return {"target": target, NAMES: np.array([str(name) for name in options["classes"]])}
    text = labels.dtype.kind not in "biuf"
    if output is not None and output["dtype"] == "str":
        if not text or not all(isinstance(label, str) for label in labels):
            what = f"the model's output {output['name']!r} is text, and not all labels are"
            raise LabelsMismatchError(f"{what}; {_NAME_THEM}")
        return {"target": labels.astype(np.str_)}
    if text and labels.size:  # a split without rows is refused elsewhere
        raise LabelsMismatchError(f"labels are text, such as {str(labels[0])!r}, not class numbers; {_NAME_THEM}")
    numbers = _read_numbers(labels)
    if classes:
        check_range(numbers, classes)
    return {"target": numbers}


def _count_classes(output: dict[str, Any] | None) -> int | None:
    """Return how many classes an output has; None if its shape does not show it, as for an output of class names."""
    if output is None or len(shape := output["shape"]) != 2 or not isinstance(shape[1], int):
        return None
    if shape[1] == 1:
        return 2 if np.dtype(output["dtype"]).kind == "f" else None
    return int(shape[1])


def _number_labels(labels: Array, names: list[Any], classes: int | None, named_by: str) -> Array:
    if classes not in (None, len(names)):
        raise LabelsMismatchError(f"{named_by} names {len(names)} classes, and the model has {classes}")
    numbers = _number_names(labels, names)
    if (numbers < 0).any():
        unknown = min(str(label) for label in labels[numbers < 0])
        raise LabelsMismatchError(f"label {unknown!r} is none of those that {named_by} names: {list_some(names)}")
    return numbers


def _number_names(labels: Array, names: list[Any]) -> Array:
    """Return the number of each label, -1 for an unknown one."""
    numbers = {str(name): number for number, name in enumerate(names)}
    return np.array([numbers.get(str(label), -1) for label in labels], dtype=np.int64)


def _read_numbers(labels: Array) -> Array:
    """Return numbers as int64, with a warning if they are floats; fractions are refused."""
    if labels.dtype.kind == "f":
        if (missing := np.flatnonzero(~np.isfinite(labels))).size:
            raise LabelsMismatchError(f"row {missing[0]} has no label ({labels[missing[0]]})")
        if (parts := np.flatnonzero(labels != np.floor(labels))).size:
            raise LabelsMismatchError(f"row {parts[0]} has the label {labels[parts[0]]}, which is not a class number")
        warnings.warn(f"the labels are {labels.dtype}; they are whole, and are taken as class numbers", stacklevel=2)
    return labels.astype(np.int64)


def check_range(labels: Array, classes: int) -> None:
    """Refuse class numbers that a model with that number of classes does not have (``LabelsMismatchError``)."""
    if not labels.size or (labels.min() >= 0 and labels.max() < classes):
        return
    if labels.min() >= 1 and labels.max() == classes:
        run = f"labels run from {int(labels.min())} to {classes}"
        raise LabelsMismatchError(f"{run}, and the model's {classes} classes {_FROM_ZERO}")
    worst = labels.min() if labels.min() < 0 else labels.max()
    raise LabelsMismatchError(f"label {int(worst)} is not one of the model's {classes} classes (0 to {classes - 1})")


def decode(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the class of each row of the outputs.

    As int64; -1, which is never right, if the largest score is not finite or one is NaN. As text if the output is text
    and no classes are given.
    """
    scores = find_output(outputs, options["output"])
    if scores.shape[1] > 1:
        return choose_best(scores)
    if scores.dtype.kind == "U":
        return _number_names(scores[:, 0], options["classes"]) if options["classes"] else scores[:, 0]
    if scores.dtype.kind in "biu":  # the model outputs the class itself
        return scores[:, 0].astype(np.int64)
    classes = (scores[:, 0] > (0.5 if options["scores"] == "probabilities" else 0.0)).astype(np.int64)
    return np.where(np.isfinite(scores[:, 0]), classes, -1)


def probabilities(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the probability of each class, as (rows, classes), for the metrics that need it.

    Raises:
        LabelsMismatchError: The output is text.
    """
    scores = find_output(outputs, options["output"])
    if scores.dtype.kind == "U":
        raise LabelsMismatchError("the output is text; name the one with probabilities: hone.program.options.output")
    scores = scores.astype(np.float64)
    logits = options["scores"] == "logits"
    if scores.shape[1] == 1:
        positive = 1 / (1 + np.exp(-scores)) if logits else scores
        return np.concatenate([1 - positive, positive], axis=1)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True)) if logits else scores


def check(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> None:
    """Refuse labels that are not among the classes that the model returned, or that seem to start from 1.

    Raises:
        LabelsMismatchError: There is such a label, or far more labels are right if 1 is subtracted.
    """
    scores, labels = find_output(outputs, options["output"]), targets["target"]
    if scores.dtype.kind == "U" and labels.dtype.kind != "U" and not options["classes"]:
        raise LabelsMismatchError(f"the model's output is text, and the labels are numbers; {_NAME_THEM}")
    if scores.dtype.kind == "f" or scores.shape[1] > 1:
        check_range(labels, max(scores.shape[1], 2))
    if labels.size and labels.dtype.kind == "i" and 1 <= labels.min() < labels.max():
        predictions = decode(outputs, options)
        right, shifted = np.mean(predictions == labels), np.mean(predictions == labels - 1)
        if shifted > 0.5 and shifted > 2 * right:
            found = f"the predictions are the labels less 1 in {shifted:.0%} of the rows, and the labels in {right:.0%}"
            raise LabelsMismatchError(f"{found}: the model's classes {_FROM_ZERO}")


def find_doubt(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> str | None:
    """Return a doubt if one label for all rows would be right as often as the predictions, or these lack one."""
    labels, predictions = targets["target"], decode(outputs, options)
    names, counts = np.unique(labels, return_counts=True)
    right, share = np.mean(predictions == labels), counts.max(initial=0) / max(len(labels), 1)
    unknown = names[(counts >= _OFTEN) & ~np.isin(names, predictions)]
    if labels.dtype.kind == "U" and len(unknown):
        return f"the model predicts {str(unknown[0])!r} in no row: check that this label is written as the model does"
    if len(names) < 2 or right > share:
        return None
    often = f"the most frequent label, {names[counts.argmax()]}, would be in {share:.1%}"
    return f"the predictions are right in {right:.1%} of the rows, and {often}: check that the labels are the model's"


def score(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:  # noqa: ARG001 - part of every program
    """Return 1 for each row that is right, otherwise 0."""
    return np.equal(predictions, targets["target"]).astype(np.float64)


metric = RowMetric(score=score).metric
