"""Compare a converted model with its source, in a process with both: on calibration rows, and on probes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from hone_runtime.conversion import agreement
from hone_runtime.sessions import compiled

from . import models, probes

Json = dict[str, Any]
Arrays = probes.Arrays


def find_onnx_problem(job: Json, model: models.Model) -> str | None:
    """Return why ``model.onnx`` differs from its source; None if it does not."""
    return _find_problem(model, _open_onnx(job), _read_rows(job, model), fixed=None, share=job.get("conversion"))


def _open_onnx(job: Json) -> probes.Run:
    """Return a call of ``model.onnx``: by ONNX Runtime, or by ONNX's reference evaluator if that lacks an operator."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = int(job["threads"]), 1
    options.log_severity_level = 3
    path = str(Path(job["output"], "model.onnx"))
    try:
        session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
    except Exception:  # noqa: BLE001 - its many checks raise anything
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(path)
        names = list(session.output_names)
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))


def find_tflite_problem(job: Json, model: models.Model, litert: Any) -> str | None:
    """Return why the file for one of the shapes differs from its source; None if none does."""
    index, feeds, threads = litert.session.read_index(job["output"]), _read_rows(job, model), int(job["threads"])
    for shape in job["shapes"]:
        key = compiled.find_key(model.inputs, shape["sizes"])
        session = litert.session.Session(job["output"], shape, index, threads)
        fitted = probes.fit(feeds, model.inputs, key)
        rows = key[0][0] if key[0] else 1
        if problem := _find_problem(model, session.run, fitted, fixed=rows, share=job.get("conversion")):
            return f"for the shape {shape['name']}, {problem}"
    return None


def _find_problem(
    model: models.Model, graph: Any, feeds: Arrays, *, fixed: int | None, share: float | None
) -> str | None:
    """Compare a graph with its model; ``fixed`` is the number of rows that the graph accepts, None for any number."""
    source: Any = partial(_run_model, model)
    batch = model.inputs[0]["shape"][0] if model.inputs[0]["shape"] else 1
    own = batch if isinstance(batch, int) else None
    if own or fixed:
        names = [spec["name"] for spec in model.outputs if spec["shape"] and _is_rows(spec["shape"][0], own)]
        graph = probes.call_in_batches(graph, own or fixed or 1, names)
        source = probes.call_in_batches(source, own or fixed or 1, names)
    make_probes = partial(probes.make_probes, feeds, model.inputs, dynamic=fixed is None)
    rows = probes.choose(feeds)
    found = agreement.compare(source, graph, feeds, make_probes, rows=rows, has_steps=False, share=share)
    for line in found.describe():
        print(line)  # noqa: T201 - the step's log
    problem: str | None = found.problem
    return problem


def _is_rows(size: int | str, own: int | None) -> bool:
    """Return whether the first dimension of an output is the row dimension."""
    return size == own if own else isinstance(size, str)


def _run_model(model: models.Model, feeds: Arrays) -> Arrays:
    found = model.call({name: tf.constant(array) for name, array in feeds.items()})
    return {name: np.asarray(value) for name, value in found.items()}


def _read_rows(job: Json, model: models.Model) -> Arrays:
    with np.load(job["calibration"], allow_pickle=False) as archive:
        return {spec["name"]: archive[spec["name"]] for spec in model.inputs}
