"""The positive class of a metric of one class, such as recall: named by the option ``positive``, or 1 of 0 and 1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import Array
from .targets import TABLE

NAMES = f"{TABLE}classes"
"""The target with the names of the classes in the order of their numbers, if the labels are numbers of names."""
BALANCED = "balanced_accuracy"
"""The mean over classes of the share of right rows: each class counts the same, however rare it is."""

ONE_CLASS = frozenset({"average_precision", "f1", "jaccard", "precision", "recall"})
"""The metrics that are computed for one class, the positive one."""

_BY_CLASS = frozenset({"average_precision", "cohen_kappa", "matthews_corrcoef", "roc_auc"})
"""Metrics, besides the means over classes, that a rare class can spoil."""
_USUAL = ({"0", "1"}, {"false", "true"})
"""Names of two classes of which the second one is positive."""
_SHOWN, _LONGEST = 8, 40
_ODD = re.compile(r"[^ .\-\w]")


class PositiveError(ValueError):
    """The positive class of a metric is unknown: what happened, (its text) why, and what to do next."""

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(why)
        self.what, self.hint = what, hint


def depends_on_classes(metric: str) -> bool:
    """Return whether a metric may be lost with the rows of one class, however many others there are."""
    plain = metric.removeprefix("neg_")
    return plain in _BY_CLASS or plain.endswith("_macro")


def count_units(least: int, classes: int) -> int:
    """Return how many rows count for a metric that depends on each class.

    A mean over three or more classes loses only its share with one of them, so each counts as many rows. With two
    classes, the area under a curve or a correlation may be lost with the rows of one of them.

    Args:
        least: The number of rows of the rarest class.
        classes: The number of classes.
    """
    return least * classes if classes > 2 else least


def list_classes(targets: Mapping[str, Array], labels: Array) -> dict[str, Any]:
    """Return the classes of labels by name: as they are in ``labels``, sorted if no names are known."""
    names = targets.get(NAMES)
    if names is not None:
        return {str(name): number for number, name in enumerate(names.tolist())}
    return {_format(value): value for value in np.unique(labels).tolist()}


def choose_positive(metric: str, known: Sequence[str], asked: Any, *, often: Mapping[str, int]) -> str:
    """Return the name of the positive class.

    Args:
        metric: The metric, for the error.
        known: The names of the classes.
        asked: The option ``positive``; None takes 1 or true of two classes that are 0 and 1, or false and true.
        often: The number of rows of each class. The error suggests the rarest one, which is usually the positive one.

    Raises:
        PositiveError: There is no such class; or the option is needed, and is not given.
    """
    listed = f"{', '.join(known[:_SHOWN])}{' and others' if len(known) > _SHOWN else ''}"
    rare = min(known, key=lambda name: often.get(name, 0), default="NAME")
    hint = f"Name the positive class: `hone.program.options.positive: {rare}`."
    if asked is None:
        lowered = {name.casefold(): name for name in known}
        for usual in _USUAL:
            if lowered and lowered.keys() <= usual:
                return next((lowered[name] for name in ("1", "true") if name in lowered), max(usual))
        why = f"it is computed for one class, and it is not known which of {listed} is the positive one"
        raise PositiveError(f"The metric {metric!r} needs a positive class.", why, hint)
    names = (str(asked), *([str(int(asked))] if isinstance(asked, bool) else []))
    if found := next((name for name in names if name in known), None):
        return found
    folded = [one for one in known if one.casefold() in {name.casefold() for name in names}]
    if len(folded) == 1:
        return folded[0]
    why = f"the labels have the classes {listed}"
    raise PositiveError(f"No class is named {str(asked)!r}, as the option positive.", why, hint)


def name_metric(metric: str, positive: str) -> str:
    """Return the name of a metric with its positive class."""
    return f"{metric} of class {clean_name(positive)}"


def clean_name(name: str) -> str:
    """Return the name of a class for reports: at most 40 letters, digits, spaces, dots, dashes and underscores."""
    return _ODD.sub("_", name)[:_LONGEST]


def _format(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
