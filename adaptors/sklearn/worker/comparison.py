"""Compare a converted estimator with its source, in the process that has both."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hone_loading import load_part

from . import estimators, parts, probes

agreement = load_part("agreement")

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

SCORES = "kedro_hone_scores"
"""The source's own scores, by which it chooses a label."""
_BY_PROBABILITIES = ("BaggingClassifier",)
"""The classes of scikit-learn that choose by probabilities, though they have a ``decision_function``, too."""


def compare(estimator: Any, graph: Any, job: Json) -> Any:
    """Return how an estimator and the graph that was made of it compare, as ``agreement.Comparison``.

    Both answer rows of the calibration data, and probes that are made of them.
    """
    specs = job["input"]["inputs"]
    with np.load(job["calibration"], allow_pickle=False) as archive:
        data = {spec["name"]: archive[spec["name"]].reshape(-1, spec["shape"][1]) for spec in specs}
    # Text as objects: arrays of text cut what is longer than their longest.
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
        warnings.simplefilter("ignore")  # of what is odd in probes
        found = agreement.compare(
            partial(_answer, estimator, specs),
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


def _answer(estimator: Any, specs: list[Json], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return what an estimator answers, and the scores of a classifier."""
    found = estimators.answer(estimator, specs, feeds)
    if estimators.is_classifier(estimator):
        found[SCORES] = find_scores(estimator, estimators.make_rows(estimator, specs, feeds))
    return found


def find_scores(estimator: Any, rows: Any) -> Array:
    """Return the scores by which a classifier chooses a label: a column for each class, of which the largest is 1.

    They are those of ``decision_function``, whose differences count as they are, and else the probabilities. Without
    either of them no two are equal.
    """
    classes = len(estimator.classes_)
    if hasattr(estimator, "decision_function") and type(parts.find_last(estimator)).__name__ not in _BY_PROBABILITIES:
        scores = np.asarray(estimator.decision_function(rows), np.float64)
        scores = np.stack([np.zeros(len(scores)), scores], axis=1) if scores.ndim == 1 else scores
        if scores.shape[1] == classes:
            return np.asarray(1 + scores - scores.max(axis=1, keepdims=True))
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(rows), np.float64)
    return np.tile(np.arange(classes, dtype=np.float64), (len(rows), 1))


def open_graph(path: Path, threads: int) -> Any:
    """Return a function from inputs by name to outputs by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))
