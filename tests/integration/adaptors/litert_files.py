"""Run files of LiteRT that are written here, at several sizes.

Run by path as a script with the python of LiteRT's environment: the worker's file and a scratch folder, in which
``found.json`` is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema


def make_tensor(name: str, kind: int) -> Any:
    """Return a tensor of any number of rows of three."""
    tensor = schema.TensorT()
    tensor.name, tensor.type, tensor.buffer = name, kind, 0
    tensor.shape, tensor.shapeSignature = [1, 3], [-1, 3]
    return tensor


def write(folder: Path, kind: str) -> Path:
    """Write a file of one input and twice that as its output; return its folder."""
    number = getattr(schema.TensorType, kind)
    graph, model, operator, code = schema.SubGraphT(), schema.ModelT(), schema.OperatorT(), schema.OperatorCodeT()
    graph.tensors = [make_tensor("x", number), make_tensor("y", number)]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ADD
    code.version = 1
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0, 0], [1]
    operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.AddOptions, schema.AddOptionsT()
    graph.inputs, graph.outputs, graph.operators = [0], [1], [operator] if kind == "FLOAT32" else []
    if kind != "FLOAT32":
        graph.outputs = [0]
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    folder.mkdir()
    (folder / "model.tflite").write_bytes(builder.Output())
    return folder


def write_linear(folder: Path, weights: str, *, read: bool = False) -> Path:
    """Write a file of one linear layer, whose weights are floats or of int8; these may be ``read`` as floats first."""
    types, graph, model = schema.TensorType, schema.SubGraphT(), schema.ModelT()
    values = np.arange(9).reshape(3, 3).astype(np.float32 if weights == "FLOAT32" else np.int8)
    x, w, y, floats = (make_tensor(name, types.FLOAT32) for name in ("x", "w", "y", "floats"))
    w.type, w.buffer, w.shape, w.shapeSignature = getattr(types, weights), 1, [3, 3], None
    floats.shape, floats.shapeSignature = [3, 3], None
    if weights == "INT8":
        w.quantization = schema.QuantizationParametersT()
        w.quantization.scale, w.quantization.zeroPoint = [0.1], [0]
    graph.tensors, model.buffers = [x, w, y, floats], [schema.BufferT(), schema.BufferT()]
    model.buffers[1].data = np.frombuffer(values.tobytes(), np.uint8)
    steps = [("FULLY_CONNECTED", [0, 3 if read else 1, -1], [2])]
    steps = [("DEQUANTIZE", [1], [3]), *steps] if read else steps
    graph.inputs, graph.outputs, graph.operators, model.operatorCodes = [0], [2], [], []
    for number, (name, inputs, outputs) in enumerate(steps):
        operator, code = schema.OperatorT(), schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = code.builtinCode, 3 if name == "FULLY_CONNECTED" else 2
        operator.opcodeIndex, operator.inputs, operator.outputs = number, inputs, outputs
        if name == "FULLY_CONNECTED":
            operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
            operator.builtinOptions = schema.FullyConnectedOptionsT()
        graph.operators.append(operator)
        model.operatorCodes.append(code)
    model.version, model.subgraphs = 3, [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    folder.mkdir()
    (folder / "model.tflite").write_bytes(builder.Output())
    return folder


def main() -> None:
    """Write what became of the files."""
    path, scratch = sys.argv[1], Path(sys.argv[2])
    inside = str(Path(path).parents[3] / "src" / "kedro_hone" / "core" / "workers" / "inside")
    sys.path.append(inside)
    import loading

    sys.path.remove(inside)
    files = loading.load_file("hone_worker", path).files
    folder = write(scratch / "doubled", "FLOAT32")
    session = files.Session({"input": {"path": str(folder), "format": files.FORMAT}, "threads": 1})
    opened, right = [[shapes[0][0] for shapes in session._opened]], []
    for size in (1, 2, 3, 4, 5, 2, 6):
        x = np.random.default_rng(size).random((size, 3), np.float32)
        right.append(bool(np.array_equal(session.run({"x": x})["y"], x + x)))
        opened.append([shapes[0][0] for shapes in session._opened])
    try:
        session.run({"x": np.zeros((1, 4), np.float32)})
        resized = ""
    except RuntimeError as error:
        resized = str(error)
    refused = {kind: str(files.describe(str(write(scratch / kind, kind)))) for kind in ("COMPLEX64", "STRING")}
    kinds = {"floats": ("FLOAT32", False), "int8": ("INT8", False), "read": ("INT8", True)}
    linear = {
        kind: files.describe(str(write_linear(scratch / kind, weights, read=read))).get("operators")
        for kind, (weights, read) in kinds.items()
    }
    found = {"linear": linear, "opened": opened, "right": right, "refused": refused, "resized": resized}
    (scratch / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
