"""Tables and class labels. One file, numpy only, so that it can be handed to any toolchain's worker by path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

METRIC = "accuracy"
HIGHER_IS_BETTER = True

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model, or "target": the name of its array or column in the data
    "features": None,  # the columns, in the order of the model's input; all but the target when empty
    "classes": None,  # names of the classes in the order of the model's outputs, where the labels are text
    "output": None,  # the output that holds the classes; the first one when empty
    "scores": "probabilities",  # or "logits": what that output holds
}

TABLES = ("x", "features", "data", "input")
LABELS = ("labels", "label", "target", "targets", "y")


class UnreadableError(ValueError):
    """The data are not what this program expects."""

    slug = "data-unreadable"


class LabelsMismatchError(ValueError):
    """The labels do not fit the model's outputs."""

    slug = "labels-mismatch"


def prepare(data: dict[str, Array], job: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Turn a table into the model's inputs.

    Args:
        data: Columns by name, or a table of (rows, features) and labels.
        job: ``input`` with the model's ``inputs`` and ``outputs``, and ``program`` with the ``options``.

    Returns:
        The feeds by input, and the labels as ``target`` (nothing when the data have none).

    Raises:
        UnreadableError: An input has no array, or a column is no number.
        LabelsMismatchError: The labels are not classes of the model.
    """
    options = OPTIONS | job["program"]["options"]
    labels = find_array(data, "target", arrays=options["arrays"], aliases=LABELS)
    columns = {name: array for name, array in data.items() if array is not labels}
    feeds = read_features(columns, job["input"]["inputs"], options)
    if labels is None:
        return feeds, {}
    return feeds, {"target": read_labels(labels, job["input"].get("outputs", []), options)}


def read_features(data: dict[str, Array], specs: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Array]:
    """Return the model's inputs from columns or tables.

    Args:
        data: Columns or tables by name, without the target.
        specs: The specifications of the model's inputs.
        options: This program's options.

    Returns:
        One array for each input.

    Raises:
        UnreadableError: An input has no array, or a column is no number.
    """
    if len(specs) == 1 and len(specs[0]["shape"]) == 2:
        name = specs[0]["name"]
        table = find_array(data, name, arrays=options["arrays"], aliases=TABLES)
        if table is not None and table.ndim == 2:
            return {name: table}
        return {name: stack_columns(data, options["features"] or list(data))}
    feeds = {}
    for spec in specs:
        column = find_array(data, spec["name"], arrays=options["arrays"], aliases=())
        if column is None:
            raise UnreadableError(f"no column for the model's input {spec['name']!r}; the data have {', '.join(data)}")
        feeds[spec["name"]] = column[:, None] if column.ndim == 1 and len(spec["shape"]) == 2 else column
    return feeds


def stack_columns(data: dict[str, Array], names: list[str]) -> Array:
    """Return columns side by side, as (rows, columns)."""
    for name in names:
        if name not in data:
            raise UnreadableError(f"there is no column {name!r}; the data have {', '.join(data)}")
        if data[name].dtype.kind not in "biuf" or data[name].ndim != 1:
            raise UnreadableError(f"column {name!r} holds {data[name].dtype}, not one number for each row")
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


def read_labels(labels: Array, outputs: list[dict[str, Any]], options: dict[str, Any]) -> Array:
    """Return labels as class numbers, checked against what is known of the model's outputs.

    Args:
        labels: Numbers, or names of classes.
        outputs: The specifications of the model's outputs.
        options: This program's options.

    Returns:
        One int64 for each row.

    Raises:
        LabelsMismatchError: They are not classes of the model.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise LabelsMismatchError(f"labels have shape {labels.shape}; one class for each row is needed")
    if options["classes"]:
        numbers = {str(name): number for number, name in enumerate(options["classes"])}
        unknown = sorted({str(label) for label in labels} - set(numbers))
        if unknown:
            raise LabelsMismatchError(f"label {unknown[0]!r} is not among the option classes")
        return np.array([numbers[str(label)] for label in labels], dtype=np.int64)
    if labels.dtype.kind not in "biuf" or not np.array_equal(labels, np.floor(labels)):
        raise LabelsMismatchError(
            f"labels are {labels.dtype}, not class numbers; name the classes in the option classes"
        )
    known = [spec["shape"] for spec in outputs if options["output"] in (None, spec["name"])][:1]
    if known and len(known[0]) == 2 and isinstance(known[0][1], int):
        check_range(labels, max(known[0][1], 2))
    return labels.astype(np.int64)


def check_range(labels: Array, classes: int) -> None:
    """Refuse labels that are not among so many classes."""
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        worst = labels.min() if labels.min() < 0 else labels.max()
        raise LabelsMismatchError(
            f"label {int(worst)} is not one of the model's {classes} classes (0 to {classes - 1})"
        )


def find_scores(outputs: dict[str, Array], options: dict[str, Any]) -> Array:
    """Return the output that holds the classes."""
    name = options["output"] or next(iter(outputs))
    if name not in outputs:
        raise LabelsMismatchError(f"the option output names {name!r}; the model has {', '.join(outputs)}")
    return outputs[name]


def count_rows(data: dict[str, Array], options: dict[str, Any]) -> int | None:
    """Return how many rows will be right or wrong, before there is a model: so many must prove the gate's limit."""
    labels = find_array(data, "target", arrays=(OPTIONS | options)["arrays"], aliases=LABELS)
    return None if labels is None else len(labels)


def decode(outputs: dict[str, Array], options: dict[str, Any]) -> Array:
    """Turn the model's outputs into classes.

    Args:
        outputs: Arrays by name, rows first.
        options: This program's options.

    Returns:
        One int64 for each row; -1, which is never right, where the scores are not finite.
    """
    options = OPTIONS | options
    scores = find_scores(outputs, options)
    scores = scores.reshape(len(scores), -1)
    if scores.shape[1] > 1:
        classes = scores.argmax(axis=1)
    elif scores.dtype.kind in "biu":  # the model names the class itself
        classes = scores[:, 0].astype(np.int64)
    else:
        classes = (scores[:, 0] > (0.5 if options["scores"] == "probabilities" else 0.0)).astype(np.int64)
    return np.where(np.isfinite(scores).all(axis=1), classes, -1)


def probabilities(outputs: dict[str, Array], options: dict[str, Any]) -> Array:
    """Return the probability of each class, as (rows, classes), for the metrics that need it."""
    options = OPTIONS | options
    scores = find_scores(outputs, options)
    scores = scores.reshape(len(scores), -1).astype(np.float64)
    logits = options["scores"] == "logits"
    if scores.shape[1] == 1:
        positive = 1 / (1 + np.exp(-scores)) if logits else scores
        return np.concatenate([1 - positive, positive], axis=1)
    if not logits:
        return scores
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def check(outputs: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> None:
    """Refuse labels that are not among the classes that the model returned.

    Raises:
        LabelsMismatchError: There is such a label.
    """
    scores = find_scores(outputs, OPTIONS | options)
    classes = int(np.prod(scores.shape[1:]))
    if scores.dtype.kind == "f" or classes > 1:
        check_range(targets["target"], max(classes, 2))


def score(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> Array:  # noqa: ARG001 - part of every program
    """Return 1 for each row that is right, else 0."""
    return np.equal(predictions, targets["target"]).astype(np.float64)


def metric(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> float:
    """Return the share of rows that are right."""
    return float(score(predictions, targets, options).mean())
