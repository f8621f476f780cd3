"""The scores of a classifier within another one, in fp64."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from onnx import TensorProto

from . import parts
from .writing import Writer


def is_asked(container: Any, model: Any, option: str) -> bool:
    """Return whether another converter wants a classifier's ``raw_scores``, or its numbers in fp64 (``wide``)."""
    return bool(container.get_options(model, {option: False}, fail=False).get(option))


def find_scores(scope: Any, container: Any, base: Any, inputs: Any, *, raw: bool) -> str:
    """Return the name of a classifier's probabilities, or of its ``raw`` scores as ``decision_function`` returns them.

    The scores of two classes are two columns, of which the second one counts.

    Raises:
        NotImplementedError: The scores have no converter.
    """
    from skl2onnx._parse import _parse_sklearn

    writer, base = Writer(scope, container), parts.unwrap(base)
    last = parts.find_last(base)
    if raw and not container.has_options(last, "raw_scores"):
        raise NotImplementedError(f"the scores of {type(last).__name__} have no converter")
    known = {"zipmap": False, "wide": True, **({"raw_scores": True} if raw else {})}  # LightGBM's takes False for True
    asked = {name: value for name, value in known.items() if container.has_options(last, name)}
    for one in (scope, container):
        one.add_options(id(last), asked)
    found = str(_parse_sklearn(scope, base, inputs)[1].full_name)
    return writer.add("Cast", found, to=TensorProto.DOUBLE)


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
    base = copy.deepcopy(base) if raw else base  # what is asked of a step is known by the object itself
    return writer.choose_columns(find_scores(scope, container, base, inputs, raw=raw), [1])


def keep_classes(writer: Writer, model: Any) -> str:
    """Add the classes of a classifier as a constant."""
    classes = np.asarray(model.classes_)
    return writer.keep(classes, str if classes.dtype.kind in "OU" else np.int64)
