"""Texts or pairs of texts, and classes by number or name; the class with the largest score, or all likely ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared import classes
from ..shared.arrays import Array, Arrays
from ..shared.errors import BadOptionError, LabelsMismatchError
from ..shared.pretrained import list_labels, read_config
from ..shared.text import OPTIONS as TEXT
from ..shared.text import PAIRS, TEXTS, Tokens, check_task, find_texts, need_texts
from . import several

OPTIONS: dict[str, Any] = {
    **TEXT,
    "classes": None,  # names of the classes in the order of the model's outputs; by default those in its config.json
    "output": None,  # the output with the scores of the classes; by default the first one
    "scores": "logits",  # or "probabilities": the kind of these scores
    "positive": None,  # the class that metrics of one class, such as recall, are computed for; 1 of 0 and 1
    "multi_label": False,  # whether a row may have several classes
    "threshold": 0.5,  # the probability from which a class is predicted, with several classes
}

METRIC, HIGHER_IS_BETTER = classes.METRIC, classes.HIGHER_IS_BETTER
count_classes, count_rows = classes.count_classes, classes.count_rows


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn texts into tokens, and labels into ``target``: (rows), or (rows, classes) with several classes.

    Raises:
        UnreadableError: There is no text.
        LabelsMismatchError: The labels are not classes of the model.
        TaskMismatchError: The model is not a classifier of texts.
        TokenizerMissingError: The model has no tokenizer.
        BadOptionError: The option ``length`` is beyond the model's positions.
    """
    options = job["program"]["options"]
    check_task(job, options, task="text-classification", rank=2)
    config = read_config(job, options)
    if config.get("problem_type") == "multi_label_classification" and not options["multi_label"]:
        raise BadOptionError(
            "a row may have several classes, according to the model's config.json: set multi_label: true"
        )
    texts, pairs = need_texts(data, "text", options, TEXTS), find_texts(data, "pair", options, PAIRS)
    tokens = Tokens(job, options, own_side=True)
    feeds = tokens.feed(tokens.encode(texts, *([] if pairs is None else [pairs])))
    return feeds, _read_targets(classes.find_labels(data, options), list_labels(config), job, options)


def _read_targets(
    labels: Array | None, names: list[str] | None, job: dict[str, Any], options: dict[str, Any]
) -> Arrays:
    """Return the labels as ``target``, by the names of classes in the model's configuration."""
    if options["multi_label"] and labels is not None:
        return {"target": several.read(labels, options["classes"] or names)}
    if labels is not None and labels.dtype.kind == "O" and all(isinstance(label, int) for label in labels.tolist()):
        labels = np.asarray(labels.tolist())
    text = labels is not None and labels.dtype.kind not in "biuf"
    if options["classes"] or not text:
        targets = classes.read_targets(labels, job, options)
    else:
        targets = classes.read_targets(labels, job, {**options, "classes": names}, named_by="id2label in config.json")
    if targets and names:  # since outputs of unknown size do not show it
        classes.check_range(targets["target"], len(names))
    return targets


def decode(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the class of each row; or 1 for each of its classes, otherwise 0, as (rows, classes)."""
    return several.decode(outputs, options) if options["multi_label"] else classes.decode(outputs, options)


def probabilities(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the probability of each class, as (rows, classes), for the metrics that need it."""
    return (
        several.compute_probabilities(outputs, options)
        if options["multi_label"]
        else classes.probabilities(outputs, options)
    )


def check(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> None:
    """Refuse labels that are not among the classes that the model returned (``LabelsMismatchError``)."""
    if not options["multi_label"]:
        classes.check(outputs, targets, options)
        return
    given, wanted = decode(outputs, options).shape[1], targets["target"].shape[1]
    if given != wanted:
        raise LabelsMismatchError(f"the model has {given} classes, and the labels {wanted}")


def find_doubt(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> str | None:
    """Return a doubt if one label for all rows would be right as often as the predictions, or these lack one."""
    return None if options["multi_label"] else classes.find_doubt(outputs, targets, options)


def describe_metric(targets: Arrays, options: dict[str, Any]) -> dict[str, str]:  # noqa: ARG001 - part of every program
    """Return the name of the metric: the accuracy, or the F1 of all decisions if a row may have several classes."""
    return {"name": several.METRIC} if options["multi_label"] else {"kind": "proportion"}


def score(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array | None:
    """Return 1 for each right row, otherwise 0; None if a row may have several classes: F1 is not a mean."""
    return None if options["multi_label"] else classes.score(predictions, targets, options)


def tally(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:  # noqa: ARG001 - part of every program
    """Return for each row the numbers of right, of predicted and of true classes."""
    return several.tally(predictions, targets["target"])


def total(sums: Array, options: dict[str, Any]) -> float:  # noqa: ARG001 - part of every program
    """Return the F1 from the sums over rows."""
    return several.measure(sums)


def metric(predictions: Array, targets: Arrays, options: dict[str, Any]) -> float:
    """Return the share of right rows, or the F1 of all decisions if a row may have several classes."""
    if not options["multi_label"]:
        return classes.metric(predictions, targets, options)
    return total(tally(predictions, targets, options).sum(axis=0), options)
