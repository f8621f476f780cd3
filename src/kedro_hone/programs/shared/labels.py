"""Labels of classes: numbers or names, read and checked against what is known of the model's outputs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .arrays import Array
from .errors import LabelsMismatchError

LABELS = ("labels", "label", "target", "targets", "y")
"""The usual names of the labels' array."""

NAMES = "name the classes in the order of the model's outputs: program.options.classes"
FROM_ZERO = "count from 0; subtract 1 from each label, or name the classes in order: program.options.classes"


def read_targets(labels: Array | None, job: dict[str, Any], options: dict[str, Any]) -> dict[str, Array]:
    """Return labels as ``target``, or nothing where there are none; otherwise as ``read_labels``."""
    return {} if labels is None else {"target": read_labels(labels, job["input"].get("outputs", []), options)}


def read_labels(labels: Array, outputs: list[dict[str, Any]], options: dict[str, Any]) -> Array:
    """Return labels, numbers or names, as class numbers, checked against the specifications of the model's outputs.

    Returns:
        One int64 for each row; text where the model's output is text and no classes are named.

    Raises:
        LabelsMismatchError: They are not classes of the model.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise LabelsMismatchError(f"labels have shape {labels.shape}; one class for each row is needed")
    output = next((spec for spec in outputs if options["output"] in (None, spec["name"])), None)
    classes = _count_classes(output)
    if options["classes"]:
        return _number_names(labels, options["classes"], classes)
    text = labels.dtype.kind not in "biuf"
    if output is not None and output["dtype"] == "str":
        if not text or not all(isinstance(label, str) for label in labels):
            raise LabelsMismatchError(f"the model's output {output['name']!r} is text, and not all labels are; {NAMES}")
        return labels.astype(np.str_)
    if text:
        raise LabelsMismatchError(f"labels are text, such as {str(labels[0])!r}, not class numbers; {NAMES}")
    numbers = _read_numbers(labels)
    if classes:
        check_range(numbers, classes)
    return numbers


def _count_classes(output: dict[str, Any] | None) -> int | None:
    """Return how many classes an output tells of, or None: one that names the class itself does not say."""
    shape = output["shape"] if output else []
    if output is None or len(shape) != 2 or not isinstance(shape[1], int):
        return None
    if shape[1] == 1:
        return 2 if np.dtype(output["dtype"]).kind == "f" else None
    return int(shape[1])


def _number_names(labels: Array, names: list[Any], classes: int | None) -> Array:
    if classes not in (None, len(names)):
        raise LabelsMismatchError(f"the option classes names {len(names)} classes, and the model has {classes}")
    numbers = number_classes(labels, names)
    if (numbers < 0).any():
        unknown = min(str(label) for label in labels[numbers < 0])
        raise LabelsMismatchError(f"label {unknown!r} is not among the option classes")
    return numbers


def number_classes(predictions: Array, names: list[Any] | None) -> Array:
    """Return the numbers of text predictions, -1 for an unknown one; the text itself where no classes are named."""
    if not names:
        return predictions
    numbers = {str(name): number for number, name in enumerate(names)}
    return np.array([numbers.get(str(name), -1) for name in predictions], dtype=np.int64)


def _read_numbers(labels: Array) -> Array:
    """Return numbers as int64, with a warning where they are floats; one that is no whole number is refused."""
    if labels.dtype.kind == "f":
        rows = np.flatnonzero(~np.isfinite(labels))
        if rows.size:
            raise LabelsMismatchError(f"row {rows[0]} has no label ({labels[rows[0]]})")
        rows = np.flatnonzero(labels != np.floor(labels))
        if rows.size:
            raise LabelsMismatchError(f"row {rows[0]} has the label {labels[rows[0]]}, which is no class number")
        warnings.warn(f"the labels are {labels.dtype}; they are whole, and are taken as class numbers", stacklevel=2)
    return labels.astype(np.int64)


def check_range(labels: Array, classes: int) -> None:
    """Refuse labels that are not among so many classes."""
    if not labels.size or (labels.min() >= 0 and labels.max() < classes):
        return
    if labels.min() >= 1 and labels.max() == classes:
        run = f"labels run from {int(labels.min())} to {classes}"
        raise LabelsMismatchError(f"{run}, and the model's {classes} classes {FROM_ZERO}")
    worst = labels.min() if labels.min() < 0 else labels.max()
    raise LabelsMismatchError(f"label {int(worst)} is not one of the model's {classes} classes (0 to {classes - 1})")


def check_start(predictions: Array, labels: Array) -> None:
    """Refuse labels that seem to count from 1: far more of them are right when 1 is subtracted."""
    if not labels.size or labels.dtype.kind != "i" or labels.min() < 1 or labels.min() == labels.max():
        return
    right, shifted = np.mean(predictions == labels), np.mean(predictions == labels - 1)
    if shifted > 0.5 and shifted > 2 * right:
        found = f"the predictions are the labels less 1 in {shifted:.0%} of the rows, and the labels in {right:.0%}"
        raise LabelsMismatchError(f"{found}: the model's classes {FROM_ZERO}")
