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


MOVES = ("SPLIT", "CONCATENATION", "PAD", "EXPAND_DIMS", "SQUEEZE", "PACK", "UNPACK")
"""Operators that move weights, which are as they were after all of them."""
GIVEN = {
    "SPLIT": {"numSplits": 1},
    "CONCATENATION": {"axis": 0},
    "SQUEEZE": {"squeezeDims": [0]},
    "PACK": {"valuesCount": 1, "axis": 0},
    "UNPACK": {"num": 1, "axis": 0},
}
NAMES = {
    "FULLY_CONNECTED": "FullyConnected",
    "SPLIT": "Split",
    "CONCATENATION": "Concatenation",
    "PAD": "Pad",
    "EXPAND_DIMS": "ExpandDims",
    "SQUEEZE": "Squeeze",
    "PACK": "Pack",
    "UNPACK": "Unpack",
}
VERSIONS = {"FULLY_CONNECTED": 3, "EXPAND_DIMS": 1, "SQUEEZE": 1}


def make_constant(name: str, values: Any, buffer: int) -> Any:
    """Return a tensor of a constant; of int8 it has a scale."""
    tensor = schema.TensorT()
    tensor.name, tensor.buffer, tensor.shape = name, buffer, [*values.shape]
    tensor.type = getattr(schema.TensorType, values.dtype.name.upper())
    if values.dtype == np.int8:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [0.1], [0]
    return tensor


def write_linear(folder: Path, weights: str, *, read: bool = False, moved: bool = False) -> Path:
    """Write a file of one linear layer, whose weights are floats or of int8.

    These may be ``moved`` first, by all of ``MOVES``, and ``read`` as floats.
    """
    graph, model = schema.SubGraphT(), schema.ModelT()
    matrix = np.arange(9).reshape(3, 3).astype(weights.lower())
    constants = {"w": matrix, "axis": np.zeros((), np.int32), "pads": np.zeros((2, 2), np.int32)}
    x, y = (make_tensor(name, schema.TensorType.FLOAT32) for name in "xy")
    graph.tensors = [x, y, *(make_constant(*each, at) for at, each in enumerate(constants.items(), start=1))]
    model.buffers = [schema.BufferT() for _ in range(1 + len(constants))]
    for buffer, values in zip(model.buffers[1:], constants.values(), strict=True):
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
    last, axis, pads = 2, 3, 4
    steps = []
    for name in (*(MOVES if moved else ()), *(["DEQUANTIZE"] if read else ())):
        inputs = {"SPLIT": [axis, last], "PAD": [last, pads], "EXPAND_DIMS": [last, axis]}.get(name, [last])
        values = matrix[None] if name in ("EXPAND_DIMS", "PACK") else matrix
        made = make_constant(name, values.astype(np.float32) if name == "DEQUANTIZE" else values, 0)
        graph.tensors.append(made)
        last = len(graph.tensors) - 1
        steps.append((name, inputs, [last]))
    steps.append(("FULLY_CONNECTED", [0, last, -1], [1]))
    graph.inputs, graph.outputs, graph.operators, model.operatorCodes = [0], [1], [], []
    for number, (name, inputs, outputs) in enumerate(steps):
        operator, code = schema.OperatorT(), schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = code.builtinCode, VERSIONS.get(name, 2)
        operator.opcodeIndex, operator.inputs, operator.outputs = number, inputs, outputs
        if name in NAMES:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{NAMES[name]}Options")
            operator.builtinOptions = getattr(schema, f"{NAMES[name]}OptionsT")()
            for option, value in GIVEN.get(name, {}).items():
                setattr(operator.builtinOptions, option, value)
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
    sys.path.append(str(Path(path).parents[4] / "src"))
    from hone_runtime.worker.packages import import_worker

    files = import_worker(path).files
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
    kinds = {"floats": ("FLOAT32", {}), "int8": ("INT8", {}), "read": ("INT8", {"read": True})}
    kinds |= {"moved": ("INT8", {"read": True, "moved": True}), "moved int8": ("INT8", {"moved": True})}
    described = {
        kind: files.describe(str(write_linear(scratch / kind, of, **how))) for kind, (of, how) in kinds.items()
    }
    linear = {kind: one.get("operators", one) for kind, one in described.items()}
    found = {"linear": linear, "opened": opened, "right": right, "refused": refused, "resized": resized}
    (scratch / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
