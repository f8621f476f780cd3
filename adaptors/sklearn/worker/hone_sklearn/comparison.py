"""Compare a converted estimator with its source, in a process with both."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.conversion import agreement

from . import estimators, parts, probes

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

SCORES = "kedro_hone_scores"
"""The source's own scores, by which it chooses a label."""
_BY_PROBABILITIES = ("BaggingClassifier",)
"""The classes of scikit-learn that choose by probabilities, although they have a ``decision_function``."""


def compare(estimator: Any, graph: Any, job: Json) -> Any:
    """Return the comparison of an estimator with its converted graph, as ``agreement.Comparison``.

    Both are run on rows of the calibration data, and on probes derived from them.
    """
    specs = job["input"]["inputs"]
    with np.load(job["calibration"], allow_pickle=False) as archive:
        data = {spec["name"]: archive[spec["name"]].reshape(-1, spec["shape"][1]) for spec in specs}
    # Text as objects: text arrays cut values beyond their longest text.
    data = {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in data.items()}
    names = parts.get(estimator, "feature_names_in_")
    make_probes = partial(
        probes.make_probes,
        data,
        names=None if names is None or estimators.is_split(specs) else [*map(str, names)],
        sentinels=probes.list_sentinels(estimator),
        seed=job["seed"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unusual values in probes
        found = agreement.compare(
            partial(_predict, estimator, specs),
            graph,
            data,
            make_probes,
            rows=agreement.choose(len(next(iter(data.values()))), probes.MOST_ROWS),
            has_steps=True,
            by_column=("variable",),
            scores={"label": SCORES} if estimators.is_classifier(estimator) else {},
            share=job.get("conversion"),
        )
    for line in found.describe():
        print(line)  # noqa: T201 - the step's log
    return found


def _predict(estimator: Any, specs: list[Json], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return an estimator's predictions, and the scores of a classifier."""
    found = estimators.predict(estimator, specs, feeds)
    if estimators.is_classifier(estimator):
        found[SCORES] = find_scores(estimator, estimators.make_rows(estimator, specs, feeds))
    return found


def find_scores(estimator: Any, rows: Any) -> Array:
    """Return the scores by which a classifier chooses a label: a column for each class.

    These are the scores of ``decision_function``, scaled so that the largest becomes 1, or else the probabilities.
    Without either, the scores contain no ties.
    """
    classes, last = len(estimator.classes_), parts.find_last(estimator)
    if not _chooses_by_pairs(last):
        if hasattr(estimator, "decision_function") and type(last).__name__ not in _BY_PROBABILITIES:
            scores = np.asarray(estimator.decision_function(rows), np.float64)
            scores = np.stack([np.zeros(len(scores)), scores], axis=1) if scores.ndim == 1 else scores
            if scores.shape[1] == classes:
                return _scale(scores)
        if hasattr(estimator, "predict_proba"):
            return np.asarray(estimator.predict_proba(rows), np.float64)
    return np.tile(np.arange(classes, dtype=np.float64), (len(rows), 1))


def _chooses_by_pairs(last: Any) -> bool:
    """Return whether the last step of a classifier, or its stacked final one, has a score for each pair of classes."""
    final = parts.get(last, "final_estimator_")
    steps = (last, *(() if final is None else (parts.find_last(final),)))
    return any(parts.get(step, "decision_function_shape") == "ovo" for step in steps)


def _scale(scores: Array) -> Array:
    """Return scores scaled so that each row's largest is 1, with differences in units of their range.

    This is the range of the row itself, or of the median row if that is larger. So one row of large scores does not
    make all others look like ties.
    """
    with np.errstate(invalid="ignore"):
        extent = np.ptp(scores, axis=1, keepdims=True)
        extent = np.maximum(extent, np.median(extent))
        return np.asarray(1 + (scores - scores.max(axis=1, keepdims=True)) / np.where(extent > 0, extent, 1.0))


def open_graph(path: Path, threads: int) -> Any:
    """Return a function from inputs by name to outputs by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))
