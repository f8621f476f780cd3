"""The predictions of classifiers: outputs become classes and probabilities, and are compared with labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, find_array, find_output
from .errors import LabelsMismatchError
from .labels import LABELS, NAMES, check_range, check_start, number_classes

METRIC = "accuracy"
HIGHER_IS_BETTER = True


@dataclass(frozen=True)
class Classes:
    """The functions of a classification program that read the model's outputs. Its methods are the program's functions.

    Attributes:
        defaults: The program's ``OPTIONS``, among them ``arrays``, ``classes`` (their names), ``output`` (its name) and
            ``scores`` (``logits`` or ``probabilities``).
    """

    defaults: dict[str, Any]

    def count_rows(self, data: dict[str, Array], options: dict[str, Any]) -> int | None:
        """Return how many rows will be right or wrong, before there is a model: so many must prove the gate's limit."""
        arrays = (self.defaults | options)["arrays"]
        labels = find_array(data, "target", arrays=arrays, aliases=LABELS)
        return None if labels is None else len(labels)

    def decode(self, outputs: dict[str, Array], options: dict[str, Any]) -> Array:
        """Return the class of each row of the outputs.

        As int64; -1, which is never right, where the scores are not finite. As text where the output is text and no
        classes are named.
        """
        options = self.defaults | options
        scores = find_output(outputs, options["output"])
        scores = scores.reshape(len(scores), -1)
        if scores.shape[1] > 1:
            classes = scores.argmax(axis=1)
        elif scores.dtype.kind == "U":
            return number_classes(scores[:, 0], options["classes"])
        elif scores.dtype.kind in "biu":  # the model names the class itself
            classes = scores[:, 0].astype(np.int64)
        else:
            classes = (scores[:, 0] > (0.5 if options["scores"] == "probabilities" else 0.0)).astype(np.int64)
        return np.where(np.isfinite(scores).all(axis=1), classes, -1)

    def probabilities(self, outputs: dict[str, Array], options: dict[str, Any]) -> Array:
        """Return the probability of each class, as (rows, classes), for the metrics that need it.

        Raises:
            LabelsMismatchError: The output is text.
        """
        options = self.defaults | options
        scores = find_output(outputs, options["output"])
        if scores.dtype.kind == "U":
            raise LabelsMismatchError("the output is text; name the one with the probabilities: program.options.output")
        scores = scores.reshape(len(scores), -1).astype(np.float64)
        logits = options["scores"] == "logits"
        if scores.shape[1] == 1:
            positive = 1 / (1 + np.exp(-scores)) if logits else scores
            return np.concatenate([1 - positive, positive], axis=1)
        if not logits:
            return scores
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def check(self, outputs: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> None:
        """Refuse labels that are not among the classes that the model returned, or that count from another number.

        Raises:
            LabelsMismatchError: There is such a label, or the labels count from 1.
        """
        options = self.defaults | options
        scores, labels = find_output(outputs, options["output"]), targets["target"]
        if scores.dtype.kind == "U" and labels.dtype.kind != "U" and not options["classes"]:
            raise LabelsMismatchError(f"the model's output is text, and the labels are numbers; {NAMES}")
        classes = int(np.prod(scores.shape[1:]))
        if scores.dtype.kind == "f" or classes > 1:
            check_range(labels, max(classes, 2))
        check_start(self.decode(outputs, options), labels)

    def find_doubt(self, outputs: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> str | None:
        """Say so where the predictions are right no more often than one label for all rows would be."""
        labels = targets["target"]
        names, counts = np.unique(labels, return_counts=True)
        right, share = np.mean(self.decode(outputs, options) == labels), counts.max(initial=0) / max(len(labels), 1)
        if len(names) < 2 or right > share:
            return None
        often = f"the most frequent label, {names[counts.argmax()]}, would be in {share:.1%}"
        return (
            f"the predictions are right in {right:.1%} of the rows, and {often}: check that the labels are the model's"
        )


def score(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> Array:  # noqa: ARG001 - part of every program
    """Return 1 for each row that is right, else 0."""
    return np.equal(predictions, targets["target"]).astype(np.float64)


def metric(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> float:
    """Return the share of rows that are right."""
    return float(score(predictions, targets, options).mean())
