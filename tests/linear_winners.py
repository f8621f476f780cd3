"""Published winners, written by hand around small ONNX models, with the golden rows of ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hone_runtime.contract.hardware import read_host
from hone_runtime.learner.golden import make_golden
from hone_runtime.learner.loader import load
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest

KINDS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
    "str": TensorProto.STRING,
}
Arrays = dict[str, Any]


def spec(name: str, dtype: str, *shape: int | str) -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape)


def write_winner(
    folder: Path,
    *,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    rows: Arrays,
    weights: Arrays | None = None,
    shapes: Arrays | None = None,
    outputs_differ: float = 0,
    files: dict[str, str] | None = None,
    metadata: Arrays | None = None,
) -> Path:
    """Write a version with an ONNX model, its golden rows and the shapes of a recipe; return its folder."""
    sealed = folder / "artifact"
    sealed.mkdir(parents=True)
    sides = [
        [helper.make_tensor_value_info(one.name, KINDS[one.dtype], one.shape) for one in side]
        for side in (inputs, outputs)
    ]
    kept = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "g", sides[0], sides[1], kept)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sealed / "model.onnx"
    )
    noted = {"threads": 1, "interface": "onnx", **(metadata or {})}
    artifact = Artifact(
        format="onnx", digest="", inputs=tuple(inputs), outputs=tuple(outputs), runtime="onnxruntime", metadata=noted
    )
    artifact = artifact.model_copy(update={"digest": Manifest.measure(sealed, artifact.manifest()).digest})
    write_manifest(sealed, artifact)
    found = load(sealed, interface="onnx").run(rows)
    if outputs_differ:
        found = {name: array + np.asarray(outputs_differ, array.dtype) for name, array in found.items()}
    texts = {name: array.astype(str) if array.dtype == object else array for name, array in found.items()}
    golden = make_golden(
        {name: array.astype(str) if array.dtype == object else array for name, array in rows.items()},
        texts,
        rows=len(next(iter(rows.values()))),
        largest_error=1e-6,
        source=artifact,
        host=read_host(),
    )
    (folder / "evidence").mkdir()
    if golden is not None:
        (folder / "evidence" / "golden.json").write_text(golden.model_dump_json())
    recipe = {"recipe": {"shapes": shapes or {"batch1": {"batch": 1}}}}
    (folder / "evidence" / "evidence.json").write_text(json.dumps(recipe))
    for name, content in (files or {}).items():
        (folder / name).write_text(content)
    return folder


def write_linear(folder: Path, *, scale: float = 1.0, **more: Any) -> Path:
    """Write a model with y = tanh(x W), from (batch, 4) to (batch, 3)."""
    return write_winner(
        folder,
        nodes=[helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Tanh", ["z"], ["y"])],
        inputs=[spec("x", "float32", "batch", 4)],
        outputs=[spec("y", "float32", "batch", 3)],
        weights={"w": make_weights(scale)},
        rows={"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)},
        shapes={"one": {"batch": 1}, "many": {"batch": 64}},
        **more,
    )


def make_weights(scale: float = 1.0) -> np.ndarray[Any, Any]:
    return (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) * np.float32(scale / 10)


def compute_linear(x: Any, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Return what the linear model returns, by numpy."""
    return np.tanh(np.asarray(x, np.float32) @ make_weights(scale))


def write_mixed(folder: Path) -> Path:
    """Write a model with five inputs of different types, each of which is returned, and a sum of two."""
    names = {"text": "str", "half": "float16", "count": "int64", "pixel": "uint8", "flag": "bool"}
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names]
    return write_winner(
        folder,
        nodes=[*nodes, helper.make_node("Add", ["count", "count"], ["sum"])],
        inputs=[spec(name, kind, "batch") for name, kind in names.items()],
        outputs=[*(spec(f"{name}_out", kind, "batch") for name, kind in names.items()), spec("sum", "int64", "batch")],
        rows={
            "text": np.array(["a", "ü"], object),
            "half": np.array([0.5, 2], np.float16),
            "count": np.array([1, 2**40]),
            "pixel": np.array([0, 255], np.uint8),
            "flag": np.array([True, False]),
        },
    )


def write_fixed(folder: Path) -> Path:
    """Write a model of fixed sizes, (2, 3) to (2, 3)."""
    return write_winner(
        folder,
        nodes=[helper.make_node("Neg", ["x"], ["y"])],
        inputs=[spec("x", "float32", 2, 3)],
        outputs=[spec("y", "float32", 2, 3)],
        rows={"x": np.arange(6, dtype=np.float32).reshape(2, 3)},
    )


def write_odd(folder: Path) -> Path:
    """Write a model whose output is NaN for negative inputs."""
    return write_winner(
        folder,
        nodes=[helper.make_node("Sqrt", ["x"], ["y"])],
        inputs=[spec("x", "float32", "batch")],
        outputs=[spec("y", "float32", "batch")],
        rows={"x": np.array([1, 4], np.float32)},
    )


def write_failing(folder: Path) -> Path:
    """Write a model that returns an element of a table, and fails for an index beyond it."""
    return write_winner(
        folder,
        nodes=[helper.make_node("Gather", ["table", "x"], ["y"])],
        inputs=[spec("x", "int64", "batch")],
        outputs=[spec("y", "float32", "batch")],
        weights={"table": np.array([1, 2, 3], np.float32)},
        rows={"x": np.array([0, 2])},
    )


def write_slow(folder: Path) -> Path:
    """Write a model that takes some tenths of a second for a row: a chain of products of large matrices."""
    steps = [helper.make_node("MatMul", ["w" if not at else f"p{at - 1}", "w"], [f"p{at}"]) for at in range(3)]
    return write_winner(
        folder,
        nodes=[
            # What depends on no input would be computed once, when the model is opened.
            helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
            helper.make_node("Mul", ["raw", "mean"], ["w"]),
            *steps,
            helper.make_node("ReduceMax", ["p2"], ["largest"], keepdims=0),
            helper.make_node("Mul", ["largest", "zero"], ["nothing"]),
            helper.make_node("Add", ["x", "nothing"], ["y"]),
        ],
        inputs=[spec("x", "float32", "batch", 4)],
        outputs=[spec("y", "float32", "batch", 4)],
        weights={"raw": np.full((1400, 1400), 1e-4, np.float32), "zero": np.zeros((), np.float32)},
        rows={"x": np.ones((1, 4), np.float32)},
    )


def write_torchscript(folder: Path) -> Path:
    """Write a winner of PyTorch, which is code: y = tanh of a linear layer of x, from (batch, 4) to (batch, 3)."""
    import torch

    sealed = folder / "artifact"
    sealed.mkdir(parents=True)
    network = torch.nn.Sequential(torch.nn.Linear(4, 3, bias=False), torch.nn.Tanh()).eval()
    network[0].weight.data = torch.from_numpy(make_weights().T.copy())
    torch.jit.save(torch.jit.trace(network, torch.zeros(2, 4)), sealed / "model.ts")
    artifact = Artifact(
        format="torchscript",
        digest="",
        inputs=(spec("x", "float32", "batch", 4),),
        outputs=(spec("y", "float32", "batch", 3),),
        runtime="pytorch",
        metadata={"threads": 1, "interface": "pytorch"},
    )
    artifact = artifact.model_copy(update={"digest": Manifest.measure(sealed, artifact.manifest()).digest})
    write_manifest(sealed, artifact)
    return folder
