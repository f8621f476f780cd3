"""DeepSparse's own code: lower ONNX to what the engine reads, and run it."""

from __future__ import annotations

import shutil
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import deepsparse
import numpy as np
import onnx
from hone_loading import require_cpu
from onnx import TensorProto

Json = dict[str, Any]

# The opsets that the engine reads. The best one has the most operators; the highest has no quantized ones.
_HIGHEST_OPSET, _BEST_OPSET, _LOWEST_OPSET, _IR_VERSION = 19, 17, 13, 8
# Operators whose meaning changed between opsets; all others only take more types and inputs, or are new.
_NEW_MEANING = {"GridSample", "GroupNormalization", "Resize"}
_TYPES = {"FLOAT", "DOUBLE", "INT8", "UINT8", "INT32", "INT64", "BOOL"}


class _Session:
    """One engine for each shape: an engine has a fixed batch size, compiled when it is made."""

    def __init__(self, job: Json) -> None:
        require_cpu(job)
        artifact = job["input"]
        self._names = [spec["name"] for spec in artifact["inputs"]]
        self._engines = {}
        for shape in artifact["static_shapes"] or job["shapes"]:
            sizes, specs = shape["sizes"], artifact["inputs"]
            shapes = [[dim if isinstance(dim, int) else sizes[dim] for dim in spec["shape"]] for spec in specs]
            with tempfile.TemporaryDirectory() as folder:  # the engine writes the shapes into the file that it is given
                path = shutil.copyfile(Path(artifact["path"], "model.onnx"), Path(folder, "model.onnx"))
                engine = deepsparse.Engine(str(path), sizes["batch"], num_cores=job["threads"], input_shapes=shapes)
            self._engines[tuple(map(tuple, shapes))] = engine

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        shapes = tuple(feeds[name].shape for name in self._names)
        engine = self._engines.get(shapes)
        if engine is None:
            raise ValueError(f"made for the shapes {sorted(self._engines)} and fed {shapes}")
        values = engine.run([np.ascontiguousarray(feeds[name]) for name in self._names])
        return dict(zip(engine.output_names, values, strict=True))


load = _Session


def describe(job: Json) -> Json:
    """Return the specs of a saved model."""
    graph = onnx.load(Path(job["input"]["path"], "model.onnx")).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    return {"inputs": [*map(_describe_value, inputs)], "outputs": [*map(_describe_value, graph.output)]}


def _describe_value(value: Any) -> Json:
    kind = value.type.tensor_type
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)).name
    return {"name": value.name, "dtype": dtype, "shape": [dim.dim_param or dim.dim_value for dim in kind.shape.dim]}


def transform(job: Json) -> Json:
    """Lower the operators' version, drop what the engine refuses, and check that every engine can be made."""
    model = onnx.load(Path(job["input"]["path"], "model.onnx"), load_external_data=False)
    if refusal := _find_refusal(model):
        return {"refused": refusal}
    try:
        model = _lower(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return {"refused": f"it cannot be written in opset {_HIGHEST_OPSET}: {_first_line(error)}"}
    onnx.save(model, str(Path(job["output"], "model.onnx")))
    try:
        _Session({**job, "input": {**job["input"], "path": job["output"], "static_shapes": job["shapes"]}})
    except Exception as error:  # noqa: BLE001 - the engine raises its own classes for what it cannot do
        return {"failed": {"class": "compile", "reason": f"the engine does not take it: {_first_line(error)}"}}
    return {"static_shapes": [shape["name"] for shape in job["shapes"]]}


def _find_refusal(model: Any) -> str | None:
    """Return why the engine cannot take a model."""
    weights, values = model.graph.initializer, (*model.graph.input, *model.graph.output)
    if foreign := sorted({node.domain for node in model.graph.node} - {"", "ai.onnx"}):
        return f"it has operators of {', '.join(foreign)}"
    types = {value.type.tensor_type.elem_type for value in values} | {tensor.data_type for tensor in weights}
    if {TensorProto.DataType.Name(each) for each in types} - _TYPES:
        return "it has weights of a type that the engine does not know, such as float16"
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in weights):
        return "its weights are in external data, which this adaptor does not take"
    opset = _find_opset(model)
    if opset < _LOWEST_OPSET:
        return f"its opset is {opset}, and the engine reads {_LOWEST_OPSET} to {_HIGHEST_OPSET}"
    changed = sorted({node.op_type for node in model.graph.node} & _NEW_MEANING) if opset > _BEST_OPSET else []
    return f"{', '.join(changed)} means something else in opset {_BEST_OPSET}" if changed else None


def _find_opset(model: Any) -> int:
    return int(next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")))


def _lower(model: Any) -> Any:
    """Return a model in the versions that the engine reads, without unused domains.

    This release's ONNX converter supports nothing after opset 19, and no quantized operators in 19. But from
    one opset to the next the operators have only taken more types, attributes and inputs (those of ``_NEW_MEANING``
    excepted), so a new version number is enough wherever the checker then accepts every operator. It is a
    ``ValidationError`` where an operator, or an attribute of one, does not exist in opset 19.
    """
    opset = min(_find_opset(model), _HIGHEST_OPSET)
    del model.graph.value_info[:]
    model.DiscardUnknownFields()
    relabelled = _relabel(model, opset)
    try:
        return _relabel(model, min(opset, _BEST_OPSET))
    except Exception as error:  # noqa: BLE001 - the checker raises its own classes and shape inference others
        print(f"stays in opset {opset}: {_first_line(error)}")  # noqa: T201 - into the log
        return relabelled


def _relabel(model: Any, opset: int) -> Any:
    """Return a checked copy of a model with other version numbers."""
    copy = deepcopy(model)
    del copy.opset_import[:]
    copy.opset_import.add(domain="", version=opset)
    copy.ir_version = min(model.ir_version, _IR_VERSION)
    onnx.checker.check_model(copy, full_check=True)
    return copy


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
