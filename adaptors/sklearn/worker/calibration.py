"""The converter of ``CalibratedClassifierCV``: over any classifier that has a converter, pipelines among them.

skl2onnx does not tell a pipeline that its scores are wanted, and takes the nearest step of an isotonic calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import parts
from .writing import Writer


def convert_calibrated(scope: Any, operator: Any, container: Any) -> None:
    """Write the mean of the calibrated probabilities, and the label of the largest.

    Raises:
        NotImplementedError: A calibration by temperature, or of scores that have no converter.
    """
    writer, model = Writer(scope, container), operator.raw_operator
    made = [
        _calibrate(writer, one, model.classes_, _find_scores(scope, operator, container, one.estimator))
        for one in model.calibrated_classifiers_
    ]
    label, probabilities = (output.full_name for output in operator.outputs)
    mean = writer.add("Mean", *made, output=probabilities)
    place = writer.add("ArgMax", mean, axis=1, keepdims=0)
    classes = writer.keep(model.classes_, str if model.classes_.dtype.kind in "OU" else np.int64)
    writer.add("Gather", classes, place, output=label)


def _find_scores(scope: Any, operator: Any, container: Any, base: Any) -> str:
    """Return the name of the scores that are calibrated: those of ``decision_function``, where there is one."""
    from skl2onnx._parse import _parse_sklearn

    last, raw = parts.find_last(base), hasattr(base, "decision_function")
    if raw and not container.has_options(last, "raw_scores"):
        raise NotImplementedError(f"the scores of {type(last).__name__} have no converter")
    known = {"raw_scores": raw, "zipmap": False}
    asked = {name: value for name, value in known.items() if container.has_options(last, name)}
    for one in (scope, container):
        one.add_options(id(last), asked)
    outputs = _parse_sklearn(scope, base, operator.inputs)
    return str(outputs[1].full_name)


def _calibrate(writer: Writer, calibrated: Any, classes: Any, scores: str) -> str:
    """Return the name of the probabilities that one calibrated classifier gives by its scores."""
    if calibrated.method not in {"sigmoid", "isotonic"}:
        raise NotImplementedError(f"a calibration by {calibrated.method} has no converter")
    write, binary = _write_sigmoid if calibrated.method == "sigmoid" else _write_isotonic, len(classes) == 2
    columns = [
        write(writer, writer.choose_columns(scores, [place + binary]), one)
        for place, one in enumerate(calibrated.calibrators)
    ]
    if binary:
        return writer.add("Concat", writer.add("Sub", writer.keep([1.0]), columns[0]), columns[0], axis=1)
    known = dict(zip(calibrated.estimator.classes_.tolist(), columns, strict=True))
    absent = writer.add("Mul", columns[0], writer.keep([0.0]))  # of a class that the rows of this one lacked
    return _normalize(writer, [known.get(one, absent) for one in classes.tolist()])


def _normalize(writer: Writer, columns: Sequence[str]) -> str:
    """Return the name of probabilities that sum to one: equal ones where all are zero."""
    table = writer.add("Concat", *columns, axis=1)
    total = writer.add("ReduceSum", table, writer.keep([1], np.int64), keepdims=1)
    empty = writer.add("Equal", total, writer.keep([0.0]))
    shares = writer.add("Div", table, writer.add("Where", empty, writer.keep([1.0]), total))
    return writer.add("Where", empty, writer.keep([1 / len(columns)]), shares)


def _write_sigmoid(writer: Writer, score: str, calibrator: Any) -> str:
    slope, shift = writer.keep([-calibrator.a_]), writer.keep([-calibrator.b_])
    return writer.add("Sigmoid", writer.add("Add", writer.add("Mul", score, slope), shift))


def _write_isotonic(writer: Writer, score: str, calibrator: Any) -> str:
    """Write a line from each threshold to the next: how far a score is along each, times how much that rises."""
    x, y = (np.asarray(one, np.float64) for one in (calibrator.X_thresholds_, calibrator.y_thresholds_))
    first = writer.keep([y[0]])
    if len(x) == 1:
        return writer.add("Add", writer.add("Mul", score, writer.keep([0.0])), first)
    passed = writer.add("Div", writer.add("Sub", score, writer.keep(x[:-1])), writer.keep(np.diff(x)))
    shares = writer.add("Clip", passed, writer.keep(0.0), writer.keep(1.0))
    return writer.add("Add", writer.add("MatMul", shares, writer.keep(np.diff(y)[:, None])), first)
