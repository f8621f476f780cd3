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
    found = {"opened": opened, "right": right, "refused": refused, "resized": resized}
    (scratch / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
