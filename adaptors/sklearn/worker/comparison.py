"""Compare a converted estimator with its source, in the process that has both."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hone_loading import load_part

from . import estimators, parts, probes

agreement = load_part("agreement")

Json = dict[str, Any]


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
            partial(estimators.answer, estimator, specs),
            graph,
            data,
            make_probes,
            rows=agreement.choose(len(next(iter(data.values()))), probes.MOST_ROWS),
            has_steps=True,
            by_column=("variable",),
            scores={"label": "probabilities"} if hasattr(estimator, "predict_proba") else {},
            share=job.get("conversion"),
        )
    for line in found.describe():
        print(line)  # noqa: T201 - the step's log
    return found


def open_graph(path: Path, threads: int) -> Any:
    """Return a function from inputs by name to outputs by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))
