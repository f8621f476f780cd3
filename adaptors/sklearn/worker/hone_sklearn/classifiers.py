"""The converters of classifiers that choose their label by scores in fp64, as scikit-learn does.

skl2onnx chooses the label by probabilities in fp32. If a model is certain, these are all 1, or all 0. The label was
then the first class, whatever the source's scores were.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from .graph_nodes import Converter, Writer
from .precision import is_near
from .scores import find_column, find_scores, find_votes, is_requested, keep_classes

_WIDE = np.float64
_ACTIVATIONS = {"identity": "Identity", "logistic": "Sigmoid", "relu": "Relu", "tanh": "Tanh"}


def convert_linear(scope: Any, operator: Any, container: Any) -> None:
    """Write a linear classifier: the label of the largest score, and its probabilities, or else its scores."""
    writer, model = Writer(scope, container), operator.raw_operator
    weights = np.atleast_2d(model.coef_)
    shift = writer.keep(np.broadcast_to(model.intercept_, len(weights)), _WIDE)
    products = writer.add("MatMul", _take(writer, operator.inputs), writer.keep(weights.T, _WIDE))
    scores, binary = writer.add("Add", products, shift), len(weights) == 1
    if is_requested(container, model, "raw_scores") or not hasattr(model, "predict_proba"):
        made = _pair(writer, scores, writer.add("Neg", scores)) if binary else scores
    else:
        made = _write_probabilities(writer, model, scores, binary=binary)
    _finish(writer, operator, container, scores=scores, made=made)


def _write_probabilities(writer: Writer, model: Any, scores: str, *, binary: bool) -> str:
    """Return the name of a linear classifier's probabilities, computed as in its class."""
    if not binary and type(model).__name__ != "SGDClassifier":
        return writer.add("Softmax", scores, axis=1)
    one = writer.keep([1.0], _WIDE)
    if getattr(model, "loss", "") == "modified_huber":
        clipped = writer.add("Clip", scores, writer.keep(-1.0, _WIDE), writer.keep(1.0, _WIDE))
        shares = writer.add("Div", writer.add("Add", clipped, one), writer.keep([2.0], _WIDE))
    else:
        shares = write_sigmoid(writer, scores)
    return (
        _pair(writer, shares, writer.add("Sub", one, shares))
        if binary
        else normalize(writer, shares, 1 / len(model.classes_))
    )


def convert_network(scope: Any, operator: Any, container: Any) -> None:
    """Write MLPClassifier, whose largest probability is that of the largest score."""
    writer, model = Writer(scope, container), operator.raw_operator
    table = _take(writer, operator.inputs)
    for place, (weights, shift) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        table = writer.add("MatMul", table, writer.keep(weights, _WIDE))
        table = writer.add("Add", table, writer.keep(shift, _WIDE))
        if place < len(model.coefs_) - 1:
            table = writer.add(_ACTIVATIONS[model.activation], table)
    if model.out_activation_ == "softmax":
        made = writer.add("Softmax", table, axis=1)
    else:
        share = write_sigmoid(writer, table)
        made = _pair(writer, share, writer.add("Sub", writer.keep([1.0], _WIDE), share))
    _finish(writer, operator, container, scores=table, made=made)


def convert_one_vs_rest(scope: Any, operator: Any, container: Any) -> None:
    """Write OneVsRestClassifier: its estimators' scores decide the label, and their probabilities are normalized."""
    writer, model = Writer(scope, container), operator.raw_operator
    raw = all(hasattr(one, "decision_function") for one in model.estimators_)
    wants_scores = is_requested(container, model, "raw_scores") or not hasattr(model, "predict_proba")

    def join(*, raw: bool) -> str:
        found = [find_column(scope, container, one, operator.inputs, raw=raw) for one in model.estimators_]
        return writer.add("Concat", *found, axis=1) if len(found) > 1 else found[0]

    scores = join(raw=raw)
    shares = "" if wants_scores else join(raw=False) if raw else scores
    if len(model.estimators_) > 1:
        made = normalize(writer, shares, 0.0) if shares else scores
    elif shares:
        made = _pair(writer, shares, writer.add("Sub", writer.keep([1.0], _WIDE), shares))
    else:
        made = _pair(writer, scores, writer.add("Neg", scores))
    threshold = 0.0 if raw else 0.5
    _finish(writer, operator, container, scores=scores, made=made, threshold=threshold)


def replace_voting(convert: Converter) -> Converter:
    """Return a converter of VotingClassifier by probabilities; votes by labels are left to the given converter."""

    def written(scope: Any, operator: Any, container: Any) -> None:
        model = operator.raw_operator
        if model.voting != "soft":
            convert(scope, operator, container)
            return
        weights = model._weights_not_none or [1.0] * len(model.estimators_)  # noqa: SLF001 - there is no public one
        writer = Writer(scope, container)
        found = [
            writer.add(
                "Mul", find_scores(scope, container, one, operator.inputs, raw=False), writer.keep([weight], _WIDE)
            )
            for one, weight in zip(model.estimators_, weights, strict=True)
        ]
        mean = writer.add("Div", writer.add("Sum", *found), writer.keep([sum(weights)], _WIDE))
        _finish(writer, operator, container, scores=mean, made=mean)

    return written


def convert_bagging(scope: Any, operator: Any, container: Any) -> None:
    """Write BaggingClassifier: the mean of its estimators' probabilities, or votes, each over its own columns.

    skl2onnx counts votes over the rows, and leaves out the classes that an estimator was not fitted on.
    """
    writer, model = Writer(scope, container), operator.raw_operator
    raw, every, found = is_requested(container, model, "raw_scores"), np.arange(model.n_features_in_), list[str]()
    for one, places in zip(model.estimators_, model.estimators_features_, strict=True):
        whole = np.array_equal(places, every)
        inputs = operator.inputs if whole else [_choose_inputs(scope, writer, operator.inputs, places)]
        if not raw and not hasattr(one, "predict_proba"):
            found.append(find_votes(scope, container, one, inputs, count=model.n_classes_))
            continue
        shares = find_scores(scope, container, one, inputs, raw=raw)
        if len(one.classes_) < model.n_classes_:  # the other classes get 0
            shares = writer.add("MatMul", shares, writer.keep(np.eye(model.n_classes_)[one.classes_], _WIDE))
        found.append(shares)
    mean = writer.add("Div", writer.add("Sum", *found), writer.keep([len(found)], _WIDE))
    _finish(writer, operator, container, scores=mean, made=mean)


def _choose_inputs(scope: Any, writer: Writer, inputs: Any, places: Any) -> Any:
    """Return a variable with some columns of an operator's inputs: fp32 if all of these are, else fp64."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kinds = {type(one.type) for one in inputs}
    if any(kind.__name__ == "StringTensorType" for kind in kinds):
        raise NotImplementedError("text of which some columns are chosen has no converter")
    single = kinds == {FloatTensorType}
    kind, code = (FloatTensorType, TensorProto.FLOAT) if single else (DoubleTensorType, TensorProto.DOUBLE)
    chosen = scope.declare_local_variable("columns", kind([None, len(places)]))
    chosen.near = any(map(is_near, inputs))
    table = writer.choose_columns(_take(writer, inputs), [*map(int, places)])
    writer.add("Cast", table, to=code, output=chosen.full_name)
    return chosen


def write_sigmoid(writer: Writer, scores: str) -> str:
    """Return the name of 1 / (1 + exp(-x)); ONNX Runtime's own operator returns 0 where SciPy's is still above it."""
    half = writer.add("Exp", writer.add("Mul", writer.add("Abs", scores), writer.keep([-0.5], _WIDE)))
    small, one = writer.add("Mul", half, half), writer.keep([1.0], _WIDE)
    above = writer.add("Greater", scores, writer.keep([0.0], _WIDE))
    return writer.add("Div", writer.add("Where", above, one, small), writer.add("Add", one, small))


def normalize(writer: Writer, table: str, share: float) -> str:
    """Return the name of shares that sum to one; if all are zero, each becomes the given share."""
    total = writer.add("ReduceSum", table, writer.keep([1], np.int64), keepdims=1)
    empty, one = writer.add("Equal", total, writer.keep([0.0], _WIDE)), writer.keep([1.0], _WIDE)
    shares = writer.add("Div", table, writer.add("Where", empty, one, total))
    return writer.add("Where", empty, writer.keep([share], _WIDE), shares)


def _take(writer: Writer, inputs: Any) -> str:
    """Return the name of the table of an operator's inputs in fp64."""
    names = [writer.add("Cast", one.full_name, to=TensorProto.DOUBLE) for one in inputs]
    return names[0] if len(names) == 1 else writer.add("Concat", *names, axis=1)


def _pair(writer: Writer, second: str, first: str) -> str:
    return writer.add("Concat", first, second, axis=1)


def _finish(
    writer: Writer,
    operator: Any,
    container: Any,
    *,
    scores: str,
    made: str,
    threshold: float = 0.0,
) -> None:
    """Write the outputs of a classifier: the label of the largest score, the first one in a tie; and ``made``.

    A single score is that of the second of two classes, which is the label if the score exceeds the threshold.
    """
    model = operator.raw_operator
    label, second = (output.full_name for output in operator.outputs)
    if _has_one(model):
        above = writer.add("Greater", scores, writer.keep([threshold], _WIDE))
        flat = writer.add("Reshape", above, writer.keep([-1], np.int64))
        place = writer.add("Cast", flat, to=TensorProto.INT64)
    else:
        place = writer.add("ArgMax", scores, axis=1, keepdims=0)
    writer.add("Gather", keep_classes(writer, model), place, output=label)
    write_numbers(writer, model, container, made=made, output=second)


def _has_one(model: Any) -> bool:
    """Return whether a classifier has one score for two classes."""
    if type(model).__name__ in {"VotingClassifier", "BaggingClassifier"}:
        return False
    return len(model.classes_) == 2


def write_numbers(writer: Writer, model: Any, container: Any, *, made: str, output: str) -> None:
    """Write fp64 numbers as a classifier's second output: as fp32, unless another converter requests fp64."""
    wide = is_requested(container, model, "wide") or is_requested(container, model, "raw_scores")
    writer.add("Cast", made, to=TensorProto.DOUBLE if wide else TensorProto.FLOAT, output=output)
