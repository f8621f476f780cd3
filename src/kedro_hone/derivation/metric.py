"""The metric of the gate: what the user named, or the program's own, or the balanced accuracy if a class is rare."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hone_runtime.errors import HoneError
from kedro_hone.core.stats.balanced import needed_balanced_rows, smallest_provable_balanced_drop
from kedro_hone.core.stats.intervals import UNITS, needed_rows, smallest_provable_drop
from kedro_hone.programs import list_programs
from kedro_hone.programs.shared.positive import (
    BALANCED,
    ONE_CLASS,
    PositiveError,
    choose_positive,
    count_units,
    depends_on_classes,
    name_metric,
)
from kedro_hone.programs.text_classification import several

RARE: Final = 5
"""A class is rare if its share is less than an equal share, divided by this: less than 10 % of two classes.

At that share the usual limit, a drop of 1 % of the accuracy, allows a tenth of the rows of one of two classes to be
lost, and with rarer classes more, up to all of them."""


CLASSIFIERS: Final = frozenset({"tabular-classification", "image-classification", "text-classification"})
"""The programs whose rows have one class each."""


_UNBOUNDED: Final = frozenset({"log_loss"})
"""Metrics of classifiers of which one row can lose any amount."""


@dataclass(frozen=True, kw_only=True)
class ChosenMetric:
    """The metric of the gate.

    Attributes:
        key: The value of ``program.metric``; None for the program's own under another name.
        name: The name that reports will have, with the positive class if the metric has one.
        why: Why it is not the program's own, as words; empty if it is, or if the user named it.
    """

    key: str | None
    name: str
    why: str = ""


def find_rare(classes: Mapping[str, int]) -> str | None:
    """Return the rarest class if it is rare (``RARE``).

    Args:
        classes: The number of rows of each class.
    """
    if len(classes) < 2:
        return None
    rarest = min(classes, key=lambda name: classes[name])
    return rarest if classes[rarest] * RARE * len(classes) < sum(classes.values()) else None


def choose_metric(
    asked: str | None, own: str, classes: Mapping[str, int] | None, options: Mapping[str, Any]
) -> ChosenMetric:
    """Choose the metric of a program for labels.

    Args:
        asked: The metric that the user named.
        own: The program's own metric.
        classes: The number of rows of each class; None if the labels are no classes.
        options: The program's options.

    Raises:
        HoneError: ``option-invalid``: the metric is computed for one class, and this is unknown.
    """
    if asked is not None:
        return ChosenMetric(key=asked, name=describe_metric(asked, classes, options))
    rare = find_rare(classes) if classes and own == "accuracy" else None
    if classes is None or rare is None:
        return ChosenMetric(key=None if own == several.METRIC else own, name=own)
    share = 100 * classes[rare] / sum(classes.values())
    why = f"each class counts the same, since only {share:.2g} % of the rows are of class {rare}"
    return ChosenMetric(key=BALANCED, name=BALANCED, why=f"{why} (else: --set program.metric={own})")


def describe_metric(metric: str, classes: Mapping[str, int] | None, options: Mapping[str, Any]) -> str:
    """Return the name of a metric, with its positive class if it is computed for one.

    Raises:
        HoneError: ``option-invalid``: that class is unknown.
    """
    positive = _find_positive(metric, classes, options)
    return metric if positive is None else name_metric(metric, positive)


def find_own_metric(program: str, options: Mapping[str, Any]) -> str | None:
    """Return the name of a built-in program's own metric; None for a program of the user."""
    if program.replace("_", "-") not in list_programs():
        return None
    if options.get("multi_label"):
        return several.METRIC
    module = importlib.import_module(f"kedro_hone.programs.{program.replace('-', '_')}")
    return str(module.METRIC)


def is_bounded(program: str, asked: str | None) -> bool:
    """Return whether a row can lose 1 at most or at least: how much rows prove then depends on their number.

    Rows of a classifier are right or wrong. Other scores that are 1 at best may lose that much in one row.

    Args:
        program: The name of a program; false for one of the user, of which this is not known.
        asked: The metric that the user named. Of a function of the user, and of other metrics of programs that are no
            classifiers, this is not known either.
    """
    if program in CLASSIFIERS:
        return asked is None or (asked.removeprefix("neg_") not in _UNBOUNDED and ":" not in asked)
    if program.replace("_", "-") not in list_programs():
        return False
    module = importlib.import_module(f"kedro_hone.programs.{program.replace('-', '_')}")
    return bool(module.HIGHER_IS_BETTER) and asked in {None, module.METRIC}


def find_provable(
    metric: str, classes: Mapping[str, int] | None, rows: int, *, options: Mapping[str, Any], confidence: float
) -> float:
    """Return the smallest drop that rows can prove if nothing is lost.

    Args:
        metric: The metric, as in the recipe.
        classes: The number of rows of each class; None if unknown.
        rows: The number of all rows.
        options: The program's options.
        confidence: The confidence of the interval.
    """
    if classes and is_balanced(metric):
        return smallest_provable_balanced_drop([*classes.values()], confidence)
    return smallest_provable_drop(max(_count_rows(metric, classes, rows, options), 1), confidence)


def count_needed(
    metric: str, classes: Mapping[str, int] | None, limit: float, *, options: Mapping[str, Any], confidence: float
) -> int:
    """Return the number of rows that prove a limit if nothing is lost, and at least those that an interval needs.

    Args:
        metric: The metric, as in the recipe.
        classes: The number of rows of each class in the data, for their shares; None if unknown.
        limit: The largest drop.
        options: The program's options.
        confidence: The confidence of the interval.
    """
    rows = sum((classes or {}).values())
    if classes and is_balanced(metric):
        return max(needed_balanced_rows([count / rows for count in classes.values()], limit, confidence), UNITS)
    share = max(_count_rows(metric, classes, rows, options), 1) / rows if rows else 1.0
    return math.ceil(max(needed_rows(limit, confidence), UNITS) / share)


def is_balanced(metric: str) -> bool:
    """Return whether a metric is the balanced accuracy, whichever of its directions is better."""
    return metric.removeprefix("neg_") == BALANCED


def _count_rows(metric: str, classes: Mapping[str, int] | None, rows: int, options: Mapping[str, Any]) -> int:
    """Return how many of the rows count for a metric: all of them, or those of the class that can spoil it."""
    positive = _find_positive(metric, classes, options)
    if classes and positive is not None:
        return classes.get(positive, 0)
    if classes and depends_on_classes(metric):
        return count_units(min(classes.values()), len(classes))
    return rows


def _find_positive(metric: str, classes: Mapping[str, int] | None, options: Mapping[str, Any]) -> str | None:
    plain = metric.removeprefix("neg_")
    if plain not in ONE_CLASS or not classes:
        return None
    asked = options.get("positive")
    if plain == "average_precision" and asked is None and len(classes) > 2:
        return None
    try:
        return choose_positive(metric, [*classes], asked, often=classes)
    except PositiveError as error:
        raise HoneError("option-invalid", error.what, why=f"{error}.", hint=error.hint) from error
