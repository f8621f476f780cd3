"""The inputs and outputs of an ONNX graph: as declared, and corrected by the outputs of the source itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx

from hone_runtime.onnx import dimensions

Json = dict[str, Any]

BATCH = "batch"


def describe(model: Any, job: Json, *, hidden: Iterable[str] = ()) -> Json:
    """Return the specs of a graph's ``inputs`` and ``outputs``; ``hidden`` outputs are left out.

    The first dynamic first dimension of the inputs is called ``batch``. Equal names mean equal sizes. An unknown
    dimension gets its own name such as ``dim_2``, or the tensor's name with the axis if several tensors would have the
    same one. If the recipe's shapes have a name of that form, it applies to all these dimensions. If the shape of an
    output is known, and the graph declares another rank, the known shape is returned.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    outputs = [value for value in model.graph.output if value.name not in {*hidden}]
    requested = {name for shape in job.get("shapes") or () for name in shape["sizes"]}
    names = _Names(inputs, outputs, requested)
    known = {spec["name"]: spec for spec in job["input"].get("outputs") or ()}
    described: Json = {"inputs": [names.describe(value) for value in inputs], "outputs": []}
    for value in outputs:
        spec = names.describe(value)
        other = known.get(value.name, spec)
        wrong = len(other["shape"]) != len(spec["shape"]) and job.get("adaptor") != "source"
        described["outputs"].append({**spec, "shape": list(other["shape"])} if wrong else spec)
    return described


class _Names:
    """The names of the dimensions of a graph."""

    def __init__(self, inputs: list[Any], outputs: list[Any], requested: set[str]) -> None:
        firsts = [dim for value in inputs for dim in _dims(value)[:1] if not dimensions.is_unknown(dim)]
        self._batch = next((dim.dim_param for dim in firsts if dim.dim_param), "")
        unknown = [
            axis for value in inputs for axis, dim in enumerate(_dims(value)) if axis and dimensions.is_unknown(dim)
        ]
        holders = Counter(unknown)
        self._shared = {axis for axis in holders if holders[axis] == 1 or f"dim_{axis}" in requested}
        self._inputs = {value.name for value in inputs}
        self._taken = {dim.dim_param for value in (*inputs, *outputs) for dim in _dims(value)}

    def describe(self, value: Any) -> Json:
        """Return a tensor's specification."""
        shape: list[int | str] = []
        for axis, dim in enumerate(_dims(value)):
            if not dimensions.is_unknown(dim):
                named = BATCH if dim.dim_param and dim.dim_param == self._batch else dim.dim_param
                shape.append(int(dim.dim_value) if dim.HasField("dim_value") else named)
            elif axis == 0:
                shape.append(BATCH)
            elif value.name in self._inputs and axis in self._shared:
                shape.append(f"dim_{axis}")
            else:
                shape.append(self.make(value.name, axis))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        return {"name": value.name, "dtype": "str" if dtype == np.dtype(object) else dtype.name, "shape": shape}

    def make(self, name: str, axis: int) -> str:
        """Return a name that no dimension of the graph has yet."""
        made = f"{name}_{axis}"
        while made in self._taken:
            made += "_"
        return made


def _dims(value: Any) -> list[Any]:
    return list(value.type.tensor_type.shape.dim)
