"""The toolchain's own code: run by path, imports nothing of kedro-hone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Store large weights in half precision, and cast them back where they are used."""
    model = onnx.load(Path(job["input"]["path"], "model.onnx"))
    casts = []
    for weight in model.graph.initializer:
        array = numpy_helper.to_array(weight)
        if array.dtype != np.float32 or array.size < job["options"]["smallest"]:
            continue
        if np.abs(array).max() > np.finfo(np.float16).max:
            return {"refused": f"the weight {weight.name} is too large for half precision"}
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(array.astype(np.float16), f"{name}.fp16"))
        casts.append(helper.make_node("Cast", [f"{name}.fp16"], [name], to=onnx.TensorProto.FLOAT))
    if not casts:
        return {"nothing_to_do": "the model has no large weights in fp32"}
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, Path(job["output"], "model.onnx"))
    return {"metadata": {"halved": len(casts)}}


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Say what a saved file takes and returns, so that the promise can be checked."""
    if job["input"]["format"] != "onnx":
        raise KeyError(job["input"]["format"])
    graph = onnx.load(Path(job["input"]["path"], "model.onnx")).graph
    return {
        "inputs": [_specify(value) for value in graph.input],
        "outputs": [_specify(value) for value in graph.output],
    }


def _specify(value: onnx.ValueInfoProto) -> dict[str, Any]:
    kind = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    return {"name": value.name, "dtype": dtype, "shape": [dim.dim_param or dim.dim_value for dim in kind.shape.dim]}
