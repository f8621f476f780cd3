"""Join a model's input columns into the matrix that its converter needs, or split a matrix into columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import estimators, parts
from .categories import Categories, is_text
from .graph_nodes import ML

Json = dict[str, Any]

TABLE = "kedro_hone_table"
"""The name of the matrix."""


def find_type(estimator: Any, specs: Sequence[Json], known: Categories) -> str | None:
    """Return the type of the matrix of an estimator's columns; None if the estimator selects columns by name.

    Categories that it numbers itself are numbers in the matrix.
    """
    if not estimators.is_split([*specs]) or _chooses_columns(estimator):
        return None
    texts = [spec["dtype"] == "str" and spec["name"] not in known for spec in specs]
    return "str" if all(texts) else None if any(texts) else "float32" if is_single(specs) else "float64"


def is_single(specs: Sequence[Json]) -> bool:
    """Return whether all numbers among the inputs are fp32, for which scikit-learn computes in fp32."""
    numbers = {spec["dtype"] for spec in specs} - {"str"}
    return numbers == {"float32"}


def _chooses_columns(estimator: Any) -> bool:
    return parts.chooses_columns(estimator) or any(_chooses_columns(part) for _, part in parts.list_parts(estimator))


def join(model: onnx.ModelProto, specs: Sequence[Json], known: Categories) -> None:
    """Replace a model's matrix input by the columns; they remain text if all columns are text.

    Categories become their indices; unknown and missing ones become NaN.
    """
    graph = model.graph
    kind = graph.input[0].type.tensor_type.elem_type
    text = kind == TensorProto.STRING
    nodes = [] if text else [node for spec in specs for node in _write_column(spec, known.get(spec["name"]), kind)]
    columns = [spec["name"] if text else _name(spec) for spec in specs]
    nodes.append(helper.make_node("Concat", columns, [TABLE], name=TABLE, axis=1))
    made = [*nodes, *graph.node]
    del graph.node[:], graph.input[:]
    graph.node.extend(made)
    for spec in specs:
        kind = (
            TensorProto.STRING if spec["dtype"] == "str" else helper.np_dtype_to_tensor_dtype(np.dtype(spec["dtype"]))
        )
        graph.input.append(helper.make_tensor_value_info(spec["name"], kind, ["batch", 1]))
    model.opset_import.append(helper.make_opsetid(ML, 3))  # needed for the attributes of LabelEncoder


def list_columns(estimator: Any, specs: Sequence[Json]) -> list[Json]:
    """Return the columns of a matrix as inputs if the estimator selects them by name; else an empty list."""
    names = parts.get(estimator, "feature_names_in_")
    if estimators.is_split([*specs]) or names is None or not _chooses_columns(estimator):
        return []
    return [{"name": str(name), "dtype": specs[0]["dtype"], "shape": ["batch", 1]} for name in names]


def split(model: onnx.ModelProto, spec: Json) -> None:
    """Replace a model's column inputs by a matrix of these columns, in their order."""
    graph, table = model.graph, spec["name"]
    columns, made = [*graph.input], [*graph.node]
    whole = helper.np_dtype_to_tensor_dtype(np.dtype(spec["dtype"]))
    kind = columns[0].type.tensor_type.elem_type
    cast = helper.make_node("Cast", [table], [TABLE], name=TABLE, to=kind)
    sizes, ones = f"{TABLE}/sizes", np.ones(len(columns), np.int64)
    graph.initializer.append(numpy_helper.from_array(ones, sizes))
    apart = helper.make_node("Split", [TABLE, sizes], [one.name for one in columns], name=sizes, axis=1)
    del graph.node[:], graph.input[:]
    graph.node.extend([cast, apart, *made])
    graph.input.append(helper.make_tensor_value_info(table, whole, ["batch", len(columns)]))


def _name(spec: Json) -> str:
    return f"{TABLE}/{spec['name']}"


def _write_column(spec: Json, known: list[Any] | None, kind: int) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of one column; the last one outputs its numbers, in an ONNX type."""
    given, made = spec["name"], _name(spec)
    if known is None:
        yield helper.make_node("Cast", [given], [made], name=made, to=kind)
        return
    keys: Json = {"keys_strings": [*map(str, known)]}
    if not is_text(known):
        keys = {"keys_floats": [*map(float, known)]}
        yield helper.make_node("Cast", [given], [f"{made}/number"], name=f"{made}/cast", to=TensorProto.FLOAT)
        given = f"{made}/number"
    found = {"values_floats": [*map(float, range(len(known)))], "default_float": np.nan, **keys}
    place = f"{made}/place"
    yield helper.make_node("LabelEncoder", [given], [place], name=place, domain=ML, **found)
    yield helper.make_node("Cast", [place], [made], name=made, to=kind)
