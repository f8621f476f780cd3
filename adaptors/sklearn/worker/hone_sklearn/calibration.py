"""The converters of ``CalibratedClassifierCV`` and ``StackingClassifier``: for any classifier that has a converter.

skl2onnx does not request the scores of a pipeline, and uses the nearest step of an isotonic calibration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from .classifiers import normalize, write_numbers, write_sigmoid
from .graph_nodes import Writer
from .scores import find_scores, keep_classes, parse


def convert_calibrated(scope: Any, operator: Any, container: Any) -> None:
    """Write the mean of the calibrated probabilities, and the label of the largest.

    Raises:
        NotImplementedError: A calibration by temperature, or of scores that have no converter.
    """
    writer, model = Writer(scope, container), operator.raw_operator
    made = []
    for one in model.calibrated_classifiers_:
        scores = find_scores(
            scope, container, one.estimator, operator.inputs, raw=hasattr(one.estimator, "decision_function")
        )
        made.append(_calibrate(writer, one, model.classes_, scores))
    label, probabilities = (output.full_name for output in operator.outputs)
    mean = writer.add("Div", writer.add("Sum", *made), writer.keep([len(made)], np.float64))
    write_numbers(writer, model, container, made=mean, output=probabilities)
    place = writer.add("ArgMax", mean, axis=1, keepdims=0)
    writer.add("Gather", keep_classes(writer, model), place, output=label)


def shape_classifier(operator: Any) -> None:
    """Set the output types of a classifier, for any input columns."""
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    classes = operator.raw_operator.classes_
    rows = operator.inputs[0].type.shape[0]
    operator.outputs[0].type = (StringTensorType if classes.dtype.kind in "OU" else Int64TensorType)([rows])
    operator.outputs[1].type = FloatTensorType([rows, len(classes)])


def convert_stacking(scope: Any, operator: Any, container: Any) -> None:
    """Write the final estimator over the outputs of the others; skl2onnx uses both columns of two classes' scores.

    Raises:
        NotImplementedError: It stacks labels, or scores that have no converter.
    """
    from skl2onnx.common.data_types import DoubleTensorType

    writer, model = Writer(scope, container), operator.raw_operator
    columns = []
    for one, method in zip(model.estimators_, model.stack_method_, strict=True):
        if method == "predict":
            raise NotImplementedError("labels that are stacked have no converter")
        scores = find_scores(scope, container, one, operator.inputs, raw=method == "decision_function")
        columns.append(writer.choose_columns(scores, [1]) if len(model.classes_) == 2 else scores)
    passed = operator.inputs if model.passthrough else ()
    columns += [writer.add("Cast", one.full_name, to=TensorProto.DOUBLE) for one in passed]
    joined = writer.add("Concat", *columns, axis=1)
    stacked = scope.declare_local_variable("stacked", DoubleTensorType([None, model.final_estimator_.n_features_in_]))
    writer.add("Identity", joined, output=stacked.full_name)
    made = parse(scope, container, model.final_estimator_, [stacked], options={"zipmap": False, "wide": True})
    place, probabilities = (one.full_name for one in made)
    write_numbers(writer, model, container, made=probabilities, output=operator.outputs[1].full_name)
    # The final estimator was fitted on the indices of the classes.
    writer.add("Gather", keep_classes(writer, model), place, output=operator.outputs[0].full_name)


def _calibrate(writer: Writer, calibrated: Any, classes: Any, scores: str) -> str:
    """Return the name of one calibrated classifier's probabilities, computed from its scores."""
    if calibrated.method not in {"sigmoid", "isotonic"}:
        raise NotImplementedError(f"a calibration by {calibrated.method} has no converter")
    write, binary = _write_sigmoid if calibrated.method == "sigmoid" else _write_isotonic, len(classes) == 2
    columns = [
        write(writer, writer.choose_columns(scores, [place + binary]), one)
        for place, one in enumerate(calibrated.calibrators)
    ]
    if binary:
        return writer.add("Concat", writer.add("Sub", writer.keep([1.0], np.float64), columns[0]), columns[0], axis=1)
    known = dict(zip(calibrated.estimator.classes_.tolist(), columns, strict=True))
    absent = writer.add(
        "Mul", columns[0], writer.keep([0.0], np.float64)
    )  # for a class that is missing in this one's training rows
    table = writer.add("Concat", *[known.get(one, absent) for one in classes.tolist()], axis=1)
    return normalize(writer, table, 1 / len(classes))


def _write_sigmoid(writer: Writer, score: str, calibrator: Any) -> str:
    slope, shift = writer.keep([-calibrator.a_], np.float64), writer.keep([-calibrator.b_], np.float64)
    return write_sigmoid(writer, writer.add("Add", writer.add("Mul", score, slope), shift))


def _write_isotonic(writer: Writer, score: str, calibrator: Any) -> str:
    """Interpolate linearly between thresholds: the fraction of each interval below a score, times its rise."""
    x, y = (np.asarray(one, np.float64) for one in (calibrator.X_thresholds_, calibrator.y_thresholds_))
    first, last = writer.keep([y[0]], np.float64), writer.keep([y[-1]], np.float64)
    above = writer.add("GreaterOrEqual", score, writer.keep([x[-1]], np.float64))
    if len(x) == 1:
        return writer.add("Where", above, first, first)
    passed = writer.add("Sub", score, writer.keep(x[:-1], np.float64))
    passed = writer.add("Div", passed, writer.keep(np.diff(x), np.float64))
    shares = writer.add("Clip", passed, writer.keep(0.0, np.float64), writer.keep(1.0, np.float64))
    risen = writer.add("Add", writer.add("MatMul", shares, writer.keep(np.diff(y)[:, None], np.float64)), first)
    return writer.add("Where", above, last, risen)  # the sum is rounded, and might exceed another class's
