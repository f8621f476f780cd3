"""The metrics by name, computed with numpy, or with scikit-learn if needed."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.worker.imports import load_file

from .errors import ReportedError
from .splits import Array


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One number for predictions and their targets (``value``).

    Its ``rows`` are one number for each row, higher is better; their mean is the metric, or its negative if lower is
    better. They are None if the metric is not a mean over rows. With ``probabilities`` its predictions are the
    probabilities of classes. Its ``kind`` is ``proportion`` or ``mean`` if the program declares it; if None, the
    numbers decide. A metric that is a function of sums over rows has a ``tally``, the numbers of each row, and a
    ``total`` from their sums: then resamples only cost sums.

    A metric with ``strata``, the class of each row, is the mean over classes of the mean of their rows, which are right
    or wrong. With ``one_class`` it is computed for the positive class (``choose_class``); the recall is the mean over
    its ``chosen`` rows. ``units`` is the number of rows that count for an interval, from the source's predictions and
    the targets, if that is less than all: the fewer rows a class has, the more one row changes its metric.
    """

    name: str
    higher_is_better: bool
    value: Callable[[Any, Any], float]
    rows: Callable[[Any, Any], Array | None] = lambda *_: None
    probabilities: bool = False
    kind: str | None = None
    tally: Callable[[Any, Any], Array] | None = None
    total: Callable[[Array], float] = float
    strata: Callable[[Any], Array] | None = None
    one_class: bool = False
    chosen: Callable[[Any], Array] | None = None
    units: Callable[[Any, Any], int] | None = None


_ROWS: dict[str, tuple[bool, Callable[[Array, Array], Array]]] = {
    "accuracy": (True, lambda given, wanted: given == wanted),
    "mean_absolute_error": (False, lambda given, wanted: -np.abs(given - wanted)),
    "mean_squared_error": (False, lambda given, wanted: -((given - wanted) ** 2)),
}
"""Metrics that are means over rows: whether higher is better, and one number for each row, higher is better."""

_SKLEARN: dict[str, tuple[str, bool, dict[str, Any], bool]] = {
    "cohen_kappa": ("cohen_kappa_score", True, {}, False),
    "matthews_corrcoef": ("matthews_corrcoef", True, {}, False),
    "r2": ("r2_score", True, {}, False),
    "explained_variance": ("explained_variance_score", True, {}, False),
    "root_mean_squared_error": ("root_mean_squared_error", False, {}, False),
    "median_absolute_error": ("median_absolute_error", False, {}, False),
    "mean_absolute_percentage_error": ("mean_absolute_percentage_error", False, {}, False),
    "max_error": ("max_error", False, {}, False),
    "average_precision": ("average_precision_score", True, {}, True),
    "roc_auc": ("roc_auc_score", True, {"multi_class": "ovr"}, True),
    "log_loss": ("log_loss", False, {}, True),
} | {
    f"{name}{suffix}": (f"{name}_score", True, {"average": average, "zero_division": 0.0}, False)
    for name in ("f1", "precision", "recall", "jaccard")
    for suffix, average in (("", "binary"), ("_macro", "macro"), ("_micro", "micro"), ("_weighted", "weighted"))
}
"""Other metrics: scikit-learn's function, whether higher is better, its arguments, whether it takes probabilities."""


def find_metric(job: Mapping[str, Any], program: Any, options: dict[str, Any]) -> Metric:
    """Find the metric of a job.

    ``metric`` is the name of an additional metric of the program (in its ``METRICS``), or a name in the tables, with
    ``neg_`` before it to reverse its direction; or ``package.module:function`` or ``path/to/file.py:function``,
    relative to ``project``; or None for the program's own.

    Raises:
        ReportedError: ``metric-unknown``.
    """
    name: str | None = job.get("metric")
    if name is None or name == program.METRIC:
        return _make_own_metric(program.METRIC, program, options)
    others: Mapping[str, Any] = getattr(program, "METRICS", {})
    if name in others:
        return _make_own_metric(name, others[name], options)
    if ":" in name:
        return _import_metric(name, options, job["project"])
    balanced = import_positive().BALANCED
    plain, names = name.removeprefix("neg_"), sorted([*others, *_ROWS, *_SKLEARN, balanced])
    if plain not in names or plain in others:
        near = difflib.get_close_matches(plain, [*names, program.METRIC], 1)
        why = f"did you mean {near[0]!r}? " if near else ""
        raise ReportedError("metric-unknown", f"There is no metric {name!r}.", f"{why}There are {', '.join(names)}.")
    if plain == balanced:
        metric = _make_balanced_metric(plain)
    else:
        metric = _make_row_metric(plain) if plain in _ROWS else _make_sklearn_metric(plain)
    if plain == name:
        return metric
    higher = not metric.higher_is_better
    return replace(metric, name=name, higher_is_better=higher, value=lambda given, wanted: -metric.value(given, wanted))


def import_positive() -> Any:
    """Return the shared module for positive classes; it can be imported after the program has been loaded."""
    return importlib.import_module("hone_programs.shared.positive")


def choose_class(metric: Metric, targets: Mapping[str, Array], options: Mapping[str, Any]) -> Metric:
    """Return a metric of one class for the positive class of these targets, which its name contains.

    Other metrics are returned unchanged, and so is any metric of rows that may have several classes.

    Raises:
        ReportedError: ``recipe-invalid``: the positive class is unknown.
    """
    labels = _find_target(targets) if metric.one_class else None
    if labels is None or labels.ndim != 1:
        return metric
    shared = import_positive()
    known, asked = shared.list_classes(targets, labels), options.get("positive")
    if metric.probabilities and asked is None and len(known) > 2:
        return metric  # scikit-learn's mean over the classes
    often = {name: int((labels == value).sum()) for name, value in known.items()}
    try:
        chosen = shared.choose_positive(metric.name, [*known], asked, often=often)
    except shared.PositiveError as error:
        raise ReportedError("recipe-invalid", error.what, str(error), hint=error.hint) from error
    value = known.get(chosen, 1)
    column = value if isinstance(value, int) else [*known].index(chosen)

    def find_mine(given: Array, wanted: Mapping[str, Array]) -> Array:
        return given[:, column] if metric.probabilities else np.asarray(_pair(given, wanted)[0] == value)

    def measure(given: Array, wanted: Mapping[str, Array]) -> float:
        mine = find_mine(given, wanted)
        pair = np.stack([1 - mine, mine], axis=1) if metric.probabilities else mine.astype(np.int64)
        return metric.value(pair, {"target": (_find_target(wanted) == value).astype(np.int64)})

    def choose(wanted: Mapping[str, Array]) -> Array:
        return np.asarray(_find_target(wanted) == value)

    def count(given: Array, wanted: Mapping[str, Array]) -> int:
        actual = int(choose(wanted).sum())
        return actual if metric.probabilities else min(actual, int(find_mine(given, wanted).sum()))

    name, units = shared.name_metric(metric.name, chosen), count
    if metric.name.removeprefix("neg_") == "recall":
        return replace(metric, name=name, value=measure, units=units, chosen=choose, rows=find_mine)
    return replace(metric, name=name, value=measure, units=units)


def _make_own_metric(name: str, part: Any, options: dict[str, Any]) -> Metric:
    """Return a program's metric from its functions; an additional metric's are attributes of a value in METRICS.

    Raises:
        ReportedError: ``metric-unknown``: it needs a module that is not installed.
    """
    for module, package in getattr(part, "NEEDS", {}).items():
        if importlib.util.find_spec(module) is None:
            what, why = f"The metric {name!r} cannot be used.", f"it needs {module}, which is not installed"
            hint = f"Install what it needs: pip install '{package}'"
            raise ReportedError("metric-unknown", what, why, hint=hint)
    tally = getattr(part, "tally", None)
    return Metric(
        name=name,
        higher_is_better=part.HIGHER_IS_BETTER,
        value=lambda given, wanted: part.metric(given, wanted, options),
        rows=lambda given, wanted: part.score(given, wanted, options),
        tally=tally and (lambda given, wanted: tally(given, wanted, options)),
        total=lambda sums: part.total(sums, options),
    )


def _find_target(targets: Mapping[str, Array]) -> Array:
    return targets["target"] if "target" in targets else next(iter(targets.values()))


def _pair(predictions: Array, targets: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return the predictions and the only target, in one shape."""
    target = _find_target(targets)
    return predictions.reshape(target.shape) if predictions.size == target.size else predictions, target


def _make_row_metric(name: str) -> Metric:
    higher, compare = _ROWS[name]
    sign = 1.0 if higher else -1.0

    def rows(predictions: Any, targets: Any) -> Array:
        given = compare(*_pair(predictions, targets))
        return np.asarray(given.reshape(len(given), -1).mean(axis=1), dtype=np.float64)

    return Metric(name=name, higher_is_better=higher, value=lambda p, t: sign * float(rows(p, t).mean()), rows=rows)


def _make_balanced_metric(name: str) -> Metric:
    def rows(predictions: Any, targets: Any) -> Array:
        given, wanted = _pair(predictions, targets)
        if wanted.ndim != 1 or wanted.dtype.kind == "f":
            raise ValueError(f"it takes one class for each row, and the targets are {wanted.dtype} of {wanted.shape}")
        return np.asarray(given == wanted, dtype=np.float64)

    def value(predictions: Any, targets: Any) -> float:
        right, (_, classes) = rows(predictions, targets), np.unique(_find_target(targets), return_inverse=True)
        return float((np.bincount(classes, right) / np.bincount(classes)).mean())

    return Metric(name=name, higher_is_better=True, value=value, rows=rows, strata=_find_target)


def _make_sklearn_metric(name: str) -> Metric:
    function, higher, arguments, probabilities = _SKLEARN[name]
    try:
        compute = getattr(importlib.import_module("sklearn.metrics"), function)
    except ImportError as error:
        what = f"The metric {name!r} cannot be used."
        raise ReportedError("metric-unknown", what, "it needs scikit-learn") from error

    def value(predictions: Any, targets: Any) -> float:
        given, wanted = (predictions, targets["target"]) if probabilities else _pair(predictions, targets)
        if name == "log_loss":
            return float(compute(wanted, given, labels=range(given.shape[1])))
        two = probabilities and wanted.ndim == 1 and given.shape[1] == 2
        return float(compute(wanted, given[:, 1] if two else given, **arguments))

    return Metric(
        name=name,
        higher_is_better=higher,
        value=value,
        probabilities=probabilities,
        one_class=name in import_positive().ONE_CLASS,
        units=_count_units if import_positive().depends_on_classes(name) else None,
    )


def _count_units(predictions: Any, targets: Mapping[str, Array]) -> int:
    """Return how many rows count for a metric that depends on each class: those of the rarest one.

    It is the rarest of the labels or, where classes are predicted, of the predictions: a precision has these below its
    fraction.
    """
    labels = _find_target(targets)
    if labels.ndim != 1:
        return len(labels)
    classes, counts = np.unique(labels, return_counts=True)
    least = int(counts.min())
    if np.ndim(predictions) == 1:
        least = min(least, *(int((predictions == one).sum()) for one in classes))
    return int(import_positive().count_units(least, len(classes)))


def _import_metric(name: str, options: dict[str, Any], project: str) -> Metric:
    """Import the user's own function: code in the recipe is trusted."""
    place, _, function = name.rpartition(":")
    try:
        if place.endswith(".py"):
            path = Path(project, place)
            module = load_file(f"hone_metric_{path.stem}", str(path), parts=False)
        else:
            module = importlib.import_module(place)
        compute = getattr(module, function)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        raise ReportedError("metric-unknown", f"The metric {name!r} cannot be imported.", str(error)) from error
    return Metric(
        name=function,
        higher_is_better=getattr(module, "HIGHER_IS_BETTER", True),
        value=lambda given, wanted: float(compute(given, wanted, options)),
    )
