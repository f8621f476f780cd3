"""The scores of a classifier inside another one, in fp64."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from onnx import TensorProto

from . import parts
from .graph_nodes import Writer


def is_requested(container: Any, model: Any, option: str) -> bool:
    """Return whether another converter requests a classifier's ``raw_scores``, or its numbers in fp64 (``wide``)."""
    return bool(container.get_options(model, {option: False}, fail=False).get(option))


def find_scores(scope: Any, container: Any, base: Any, inputs: Any, *, raw: bool) -> str:
    """Return the name of a classifier's probabilities, or of its ``raw`` scores as in ``decision_function``.

    The scores of two classes are two columns; the second one counts.

    Raises:
        NotImplementedError: The scores have no converter.
    """
    last = parts.find_last(base)
    if raw and not container.has_options(last, "raw_scores"):
        raise NotImplementedError(f"the scores of {type(last).__name__} have no converter")
    known = {"zipmap": False, "wide": True, **({"raw_scores": True} if raw else {})}  # LightGBM's treats False as True
    found = parse(scope, container, base, inputs, options=known)[1]
    return Writer(scope, container).add("Cast", found.full_name, to=TensorProto.DOUBLE)


def find_votes(scope: Any, container: Any, base: Any, inputs: Any, *, count: int) -> str:
    """Return the name of a table with a column for each class: 1 for the predicted one, and 0 for the others.

    The classes are the numbers from 0 to ``count`` - 1.
    """
    writer, label = Writer(scope, container), parse(scope, container, base, inputs, options={"zipmap": False})[0]
    number = writer.add("Cast", label.full_name, to=TensorProto.INT64)
    column = writer.add("Reshape", number, writer.keep([-1, 1], np.int64))
    return writer.add("Cast", writer.add("Equal", column, writer.keep(range(count), np.int64)), to=TensorProto.DOUBLE)


def parse(scope: Any, container: Any, base: Any, inputs: Any, *, options: dict[str, bool]) -> Any:
    """Return the variables of a classifier's label and numbers, given those options that its last step supports."""
    from skl2onnx._parse import _parse_sklearn

    base = parts.unwrap(base)
    last = parts.find_last(base)
    for one in (scope, container):
        one.add_options(id(last), {name: options[name] for name in options if container.has_options(last, name)})
    return _parse_sklearn(scope, base, inputs)


def find_column(scope: Any, container: Any, base: Any, inputs: Any, *, raw: bool) -> str:
    """Return the name of one column: the score or probability of the second class, or a regressor's numbers."""
    from skl2onnx._parse import _parse_sklearn
    from sklearn.base import is_regressor

    writer = Writer(scope, container)
    if type(base).__name__ == "_ConstantPredictor":
        rows = writer.add("Cast", inputs[0].full_name, to=TensorProto.DOUBLE)
        first = writer.choose_columns(rows, [0])
        zero = writer.add("Sub", first, first)
        return writer.add("Add", zero, writer.keep(np.reshape(base.y_, (1, 1)), np.float64))
    if is_regressor(base):
        predicted = str(_parse_sklearn(scope, base, inputs)[0].full_name)
        wide = writer.add("Cast", predicted, to=TensorProto.DOUBLE)
        return writer.add("Reshape", wide, writer.keep([-1, 1], np.int64))
    base = copy.deepcopy(base) if raw else base  # skl2onnx identifies a step's options by the object itself
    return writer.choose_columns(find_scores(scope, container, base, inputs, raw=raw), [1])


def keep_classes(writer: Writer, model: Any) -> str:
    """Add the classes of a classifier as a constant."""
    classes = np.asarray(model.classes_)
    return writer.keep(classes, str if classes.dtype.kind in "OU" else np.int64)
