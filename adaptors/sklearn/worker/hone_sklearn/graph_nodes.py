"""Add nodes to the graph that skl2onnx writes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]
Converter = Callable[[Any, Any, Any], None]
"""The function that skl2onnx calls for an operator: with the scope of names, the operator and the node container."""

ML = "ai.onnx.ml"


class Writer:
    """Adds nodes with one output each, whose names it returns."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def add(self, kind: str, *inputs: str, domain: str = "", output: str = "", **attributes: Any) -> str:
        """Add a node; its output gets a new name if none is given."""
        made = output or str(self._scope.get_unique_variable_name(kind.lower()))
        name = self._scope.get_unique_operator_name(kind)
        self._container.add_node(kind, [*inputs], [made], op_domain=domain, name=name, **attributes)
        return made

    def keep(self, values: Any, dtype: Any = np.float32) -> str:
        """Add a constant: numbers of a type, or texts if the type is ``str``."""
        name = str(self._scope.get_unique_variable_name("constant"))
        if dtype is str:
            texts = [str(one).encode() for one in np.ravel(values)]
            self._container.add_initializer(name, TensorProto.STRING, [len(texts)], texts)
            return name
        array = np.asarray(values, dtype)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self._container.add_initializer(name, kind, [*array.shape], array.ravel().tolist())
        return name

    def append(self, node: Any, kind: str, *inputs: str, place: int = 0) -> None:
        """Append a node to one of another node's outputs, whose name it takes over."""
        last = self.release(node, place)
        self.add(kind, node.output[place], *inputs, output=last)

    def release(self, node: Any, place: int) -> str:
        """Rename an output of a node, and return its former name."""
        last, node.output[place] = node.output[place], str(self._scope.get_unique_variable_name(node.output[place]))
        self._container._added_names_.discard(last)
        return str(last)

    def choose_columns(self, table: str, places: list[int]) -> str:
        """Add a node that selects some columns of a table."""
        return self.add("Gather", table, self.keep(places, np.int64), axis=1)


def convert_copy(convert: Converter, scope: Any, operator: Any, container: Any, made: Any) -> None:
    """Convert a changed copy of an operator's estimator, in its place."""
    model, kept = operator.raw_operator, scope.options
    if kept and id(model) in kept:  # skl2onnx identifies an estimator's options by the object itself
        scope.options = {**kept, id(made): kept[id(model)]}
    operator.raw_operator = made
    try:
        convert(scope, operator, container)
    finally:
        operator.raw_operator, scope.options = model, kept


def change(convert: Converter, make: Callable[[Any], Any]) -> Converter:
    """Return a converter for the result of ``make`` for a shallow copy of the estimator, instead of the estimator."""

    def changed(scope: Any, operator: Any, container: Any) -> None:
        convert_copy(convert, scope, operator, container, make(copy.copy(operator.raw_operator)))

    return changed


def replace_input(convert: Converter, write: Callable[[Writer, Any, str], str]) -> Converter:
    """Return a converter whose input is the result of ``write``, given the estimator and the input's name."""

    def replaced(scope: Any, operator: Any, container: Any) -> None:
        name, before = operator.inputs[0].full_name, len(container.nodes)
        convert(scope, operator, container)
        added = container.nodes[before:]
        made = write(Writer(scope, container), operator.raw_operator, name)
        for node in added:
            node.input[:] = [made if one == name else one for one in node.input]

    return replaced
