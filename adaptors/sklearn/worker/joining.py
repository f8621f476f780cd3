"""Join the columns that a model takes one by one into the matrix that its converter takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from . import estimators, parts
from .categories import Categories, is_text
from .writing import ML

Json = dict[str, Any]

TABLE = "kedro_hone_table"
"""The name of the matrix."""


def is_needed(estimator: Any, specs: Sequence[Json], known: Categories) -> bool:
    """Return whether an estimator takes its columns as one matrix, when their categories are numbers."""
    if not estimators.is_split([*specs]) or _chooses_columns(estimator):
        return False
    return all(spec["dtype"] != "str" or spec["name"] in known for spec in specs)


def _chooses_columns(estimator: Any) -> bool:
    return parts.chooses_columns(estimator) or any(_chooses_columns(part) for _, part in parts.list_parts(estimator))


def join(model: onnx.ModelProto, specs: Sequence[Json], known: Categories) -> None:
    """Give a model that takes a matrix the columns as its inputs.

    Categories become the numbers of their places; what is none of them, and a missing one, becomes NaN.
    """
    graph = model.graph
    nodes = [node for spec in specs for node in _write_column(spec, known.get(spec["name"]))]
    nodes.append(helper.make_node("Concat", [_name(spec) for spec in specs], [TABLE], name=TABLE, axis=1))
    made = [*nodes, *graph.node]
    del graph.node[:], graph.input[:]
    graph.node.extend(made)
    for spec in specs:
        text = spec["dtype"] == "str"
        kind = TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(np.dtype(spec["dtype"]))
        graph.input.append(helper.make_tensor_value_info(spec["name"], kind, ["batch", 1]))
    versions = {entry.domain for entry in model.opset_import}
    if ML not in versions and any(node.domain == ML for node in nodes):
        model.opset_import.append(helper.make_opsetid(ML, 3))


def _name(spec: Json) -> str:
    return f"{TABLE}/{spec['name']}"


def _write_column(spec: Json, known: list[Any] | None) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of one column, whose last one leaves its numbers."""
    given, made = spec["name"], _name(spec)
    if known is None:
        yield helper.make_node("Cast", [given], [made], name=made, to=TensorProto.FLOAT)
        return
    keys: Json = {"keys_strings": [*map(str, known)]}
    if not is_text(known):
        keys = {"keys_floats": [*map(float, known)]}
        yield helper.make_node("Cast", [given], [f"{made}/number"], name=f"{made}/cast", to=TensorProto.FLOAT)
        given = f"{made}/number"
    found = {"values_floats": [*map(float, range(len(known)))], "default_float": np.nan, **keys}
    yield helper.make_node("LabelEncoder", [given], [made], name=made, domain=ML, **found)
