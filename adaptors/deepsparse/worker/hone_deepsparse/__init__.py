"""DeepSparse's own code: convert ONNX for the engine, and run it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import deepsparse
import numpy as np
import onnx
from onnx import TensorProto

from hone_runtime.conversion import normalization
from hone_runtime.worker.imports import require_cpu
from hone_runtime.worker.refusal import UnsuitedError

Json = dict[str, Any]

_BEST_OPSET = 17  # the opset with the most supported operators; the highest one has no quantized operators
_QUANTIZED = re.compile("quantize|integer|qlinear", re.IGNORECASE)
_RAISED = "The engine raised: "
_ASSERTION = re.compile(r"^Assertion at \S*?([\w.]+:\d+)", re.MULTILINE)
_TYPES = {"FLOAT", "DOUBLE", "INT8", "UINT8", "INT32", "INT64", "BOOL"}


class _Session:
    """One engine for each shape: an engine has a fixed batch size, and is compiled when it is constructed."""

    def __init__(self, job: Json) -> None:
        require_cpu(job)
        artifact = job["input"]
        self._names = [spec["name"] for spec in artifact["inputs"]]
        self._engines = {}
        for shape in artifact["static_shapes"] or job["shapes"]:
            sizes, specs = shape["sizes"], artifact["inputs"]
            shapes = [[dim if isinstance(dim, int) else sizes[dim] for dim in spec["shape"]] for spec in specs]
            with tempfile.TemporaryDirectory() as folder:  # the engine writes the shapes into the given file
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
    """Write a model in versions that the engine reads, and check that every engine can be constructed."""
    try:
        model, notes = normalization.normalize(job, prefer=_BEST_OPSET)
    except UnsuitedError as error:
        return {"refused": str(error)}
    weights, values = model.graph.initializer, (*model.graph.input, *model.graph.output)
    types = {value.type.tensor_type.elem_type for value in values} | {tensor.data_type for tensor in weights}
    if odd := sorted({TensorProto.DataType.Name(each) for each in types} - _TYPES):
        return {"refused": f"it has weights or values of types that the engine does not know: {', '.join(odd).lower()}"}
    onnx.save(model, str(Path(job["output"], "model.onnx")))
    opened = {**job, "input": {**job["input"], "path": job["output"], "static_shapes": job["shapes"]}}
    if reason := _explain_refusal(opened):
        odd = sorted({node.op_type for node in model.graph.node if _QUANTIZED.search(node.op_type)})
        which = f"; it has {', '.join(odd)}" if odd else ""
        return {"failed": {"class": "compile", "reason": f"the engine does not take it: {reason}{which}"}}
    return {"static_shapes": [shape["name"] for shape in job["shapes"]], "metadata": notes}


def _explain_refusal(job: Json) -> str | None:
    """Return why the engines of a job's model cannot be constructed, or None.

    They are constructed in a fork: if an assertion in the engine's compiler fails, it ends the process.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            _make_engines(job)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        text = output.read()
    print(text)  # noqa: T201 - the step's log
    if status == 0:
        return None
    if found := _ASSERTION.search(text):
        return f"its compiler fails an assertion of its own, at {found[1]}"
    if _RAISED in text:
        return text.rpartition(_RAISED)[2].splitlines()[0][:300]
    code = os.waitstatus_to_exitcode(status)
    return f"it ended its process with {f'exit code {code}' if code > 0 else signal.Signals(-code).name}"


def _make_engines(job: Json) -> NoReturn:
    """End this process, with 0 if the engines of a job's model can be constructed."""
    try:
        _Session(job)
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - nothing may return into the code that was forked
        message = str(error).strip() or type(error).__name__
        os.write(1, f"{_RAISED}{message}\n".encode(errors="replace"))
    finally:
        os._exit(3)
