"""The comparison of candidates with the source on the same rows.

In all functions ``predictions`` are what the program decoded, and ``targets`` are arrays by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import ReportedError
from .metrics import Metric

Array = NDArray[Any]
ROUNDING = 1e-6
UNDEFINED_LIMIT = 0.01
"""The largest share of resamples on which a metric may be undefined."""


def measure(metric: Metric, predictions: Any, targets: Any) -> float:
    """Compute a metric.

    Raises:
        ReportedError: ``program-failed`` when it cannot be computed, or is no number.
    """
    what = f"The metric {metric.name!r} cannot be computed."
    try:
        value = float(metric.value(predictions, targets))
    except ValueError as error:
        raise ReportedError("program-failed", what, str(error)) from error
    if not np.isfinite(value):
        raise ReportedError("program-failed", what, f"it is {value}")
    return value


def compare(metric: Metric, source: Any, candidate: Any, targets: Any) -> dict[str, Any] | None:
    """Compare a candidate's predictions with the source's row by row.

    Returns:
        ``kind`` ``proportion`` with ``lost`` and ``gained`` rows when every row is right or wrong; ``mean`` with the
        ``differences`` (source less candidate, so that positive is worse) otherwise, or where the program says so; None
        when the metric is no mean over rows.

    Raises:
        ReportedError: ``program-failed`` when the rows do not average to the metric, or to its negative where lower is
            better.
    """
    rows = [metric.rows(predictions, targets) for predictions in (source, candidate)]
    if rows[0] is None or rows[1] is None:
        return None
    before, after = (np.asarray(row, dtype=np.float64) for row in rows)
    sign, expected = (1.0, "metric") if metric.higher_is_better else (-1.0, "minus metric, since lower is better")
    for scores, predictions in ((before, source), (after, candidate)):
        mean, value = scores.mean(), measure(metric, predictions, targets)
        if not np.isclose(mean, sign * value, rtol=ROUNDING, atol=ROUNDING):  # the interval would be of another
            why = (
                f"score (higher is better for each row) averages to {mean:.6g} instead of {sign * value:.6g}, which is "
                f"{expected}; mend its sign, or let score return None if it is no mean"
            )
            raise ReportedError("program-failed", f"The rows of {metric.name!r} do not average to it.", why)
    if metric.kind != "mean" and np.isin(before, (0, 1)).all() and np.isin(after, (0, 1)).all():
        return {"kind": "proportion", "lost": int((before > after).sum()), "gained": int((before < after).sum())}
    return {"kind": "mean", "differences": before - after}


def find_span(metric: Metric, predictions: Any, targets: Mapping[str, Array]) -> float:
    """Return how much is lost where each row is given another row's target, in the metric's unit.

    It scales what rows that were not seen may lose: that none was seen is no proof, and not every metric ends at 1.

    Returns:
        The largest loss of a row, or that of the metric where it is no mean over rows; 0 where it is not known.
    """
    rows = count_rows(targets)
    others = _take_rows(targets, np.roll(np.arange(rows), rows // 2))

    def score(wanted: Any) -> Array:
        found = metric.rows(predictions, wanted)
        return np.asarray(metric.value(predictions, wanted) if found is None else found, dtype=np.float64)

    try:
        span = float(np.abs(score(targets) - score(others)).max())
    except ValueError:
        return 0.0  # as for a class that the model does not know
    return span if np.isfinite(span) else 0.0


def resample(metric: Metric, predictions: Any, targets: Any, *, replicates: int, seed: int) -> Array:
    """Compute a metric on resamples of the rows (bootstrap); one seed gives the same rows for every candidate.

    Returns:
        One value for each of so many replicates; NaN where the metric is not defined, as when a class is missing.
    """
    rows = count_rows(targets)
    random = np.random.default_rng(seed)
    values = np.full(replicates, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a resample may lack a class, and scikit-learn says so each time
        for replicate in range(replicates):
            chosen = random.integers(0, rows, rows)
            try:
                values[replicate] = metric.value(_take_rows(predictions, chosen), _take_rows(targets, chosen))
            except ValueError:
                continue  # stays NaN; too many of them are refused by the caller
    return values


def check_replicates(metric: Metric, drops: Array) -> Array:
    """Return the drops of the resamples without those on which the metric is not defined (NaN).

    Raises:
        ReportedError: ``program-failed`` when these are too many: what is left would not be a fair sample.
    """
    defined = np.isfinite(drops)
    if (~defined).mean() > UNDEFINED_LIMIT:
        why = f"it is not defined on {int((~defined).sum())} of {len(drops)} resamples; some class has too few rows"
        raise ReportedError("program-failed", f"The interval of {metric.name!r} cannot be computed.", why)
    return drops[defined]


def count_rows(targets: Mapping[str, Array]) -> int:
    """Return the number of rows."""
    return len(next(iter(targets.values())))


def decode(program: Any, metric: Metric, *, outputs: dict[str, Array], targets: Any, options: dict[str, Any]) -> Any:
    """Return the program's predictions, or its probabilities where the metric takes these.

    Raises:
        ReportedError: ``labels-mismatch`` when outputs do not have one row for each target, or ``program-failed`` when
            the program has no probabilities.
    """
    rows = count_rows(targets)
    for name, output in outputs.items():
        if output.ndim == 0 or len(output) != rows:
            why = f"output {name!r} has shape {output.shape}, and there are {rows} rows"
            raise ReportedError("labels-mismatch", "The labels do not match the model's outputs.", why)
    if hasattr(program, "check"):
        program.check(outputs, targets, options)
    if not metric.probabilities:
        return program.decode(outputs, options)
    if not hasattr(program, "probabilities"):
        what = f"The metric {metric.name!r} cannot be computed."
        raise ReportedError("program-failed", what, "it takes probabilities, and the program does not define them")
    return program.probabilities(outputs, options)


def _take_rows(value: Any, rows: Array) -> Any:
    return {name: array[rows] for name, array in value.items()} if isinstance(value, Mapping) else value[rows]
