"""Prepare ONNX models for onnx2tf, and compute their outputs for some rows with ONNX Runtime."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxsim
from onnx import helper

Json = dict[str, Any]
Array = np.ndarray[Any, Any]
Sizes = Sequence[tuple[int, ...]]

_FILE = "model.onnx"
_NEWEST = 10
"""The IR version of ONNX that onnxsim accepts; it is independent of the operators."""
_OF_IMAGES = frozenset(
    {
        *("Conv", "ConvTranspose", "DeformConv", "DepthToSpace", "SpaceToDepth", "Resize", "Upsample", "GridSample"),
        *("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool", "LRN"),
        *("BatchNormalization", "InstanceNormalization", "GroupNormalization"),
    }
)
"""Operators whose second axis is the channel axis."""


@dataclass(frozen=True)
class Rows:
    """Inputs and outputs of a model, in the order of its inputs and outputs."""

    inputs: list[Array]
    outputs: list[Array]


def read(folder: str) -> onnx.ModelProto:
    """Return the model in a folder, with its external data."""
    return onnx.load(Path(folder, _FILE))


def find_unknown(model: onnx.ModelProto) -> list[str]:
    """Return the operators for which onnx2tf has no module."""
    names = {node.op_type for node in _walk(model.graph)}
    return sorted(name for name in names if importlib.util.find_spec(f"onnx2tf.ops.{name}") is None)


def has_images(model: onnx.ModelProto) -> bool:
    """Whether any operator has a channel axis."""
    return any(node.op_type in _OF_IMAGES for node in _walk(model.graph))


def _walk(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of the bodies of its branches and loops."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _walk(body)


def count_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the weights."""
    return sum(onnx.numpy_helper.to_array(weight).nbytes for weight in model.graph.initializer)


def fix(model: onnx.ModelProto, specs: Json, rows: Rows) -> onnx.ModelProto:
    """Return a copy with the input sizes of some rows, and constants folded.

    Its inputs and outputs are named ``in_0``, ``out_0`` and so on, in the order of the specs, since TensorFlow does not
    accept every name.
    """
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    graph = fixed.graph
    given, returned = _list_values("in", rows.inputs), _list_values("out", rows.outputs)
    first = [helper.make_node("Identity", [f"in_{n}"], [spec["name"]]) for n, spec in enumerate(specs["inputs"])]
    last = [helper.make_node("Identity", [spec["name"]], [f"out_{n}"]) for n, spec in enumerate(specs["outputs"])]
    nodes = [*first, *_spell_out(graph.node), *last]
    fixed.ir_version = min(fixed.ir_version, _NEWEST)
    for field, values in ((graph.node, nodes), (graph.input, given), (graph.output, returned), (graph.value_info, [])):
        del field[:]
        field.extend(values)
    simple: onnx.ModelProto = onnxsim.simplify(fixed, check_n=0)[0]
    return simple


def _spell_out(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes with norms decomposed: onnx2tf maps them to ``tf.norm``, which fails if axes are a tensor.

    For two axes it would compute a matrix norm. ``ReduceL1`` has a tensor of axes in the opsets where ``ReduceSum``
    does.
    """
    for node in nodes:
        of_axes = len(node.input) > 1 or not any(attribute.name == "axes" for attribute in node.attribute)
        if node.op_type == "ReduceL2":
            squares, (result,) = onnx.NodeProto(), node.output
            squares.CopyFrom(node)
            squares.op_type, squares.output[0] = "ReduceSumSquare", f"{result}__squares"
            yield from (squares, helper.make_node("Sqrt", [*squares.output], [result]))
        elif node.op_type == "ReduceL1" and of_axes:
            total, inner = onnx.NodeProto(), f"{node.output[0]}__sizes"
            total.CopyFrom(node)
            total.op_type, total.input[0] = "ReduceSum", inner
            yield from (helper.make_node("Abs", [node.input[0]], [inner]), total)
        else:
            yield node


def _list_values(word: str, arrays: list[Array]) -> list[onnx.ValueInfoProto]:
    types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
    return [
        helper.make_tensor_value_info(f"{word}_{number}", kind, array.shape)
        for number, (kind, array) in enumerate(zip(types, arrays, strict=True))
    ]


def compute_rows(job: Json, sizes: Sizes) -> list[Rows]:
    """Return two results of ONNX Runtime for random inputs, at given sizes of the inputs.

    Raises:
        Exception: ONNX Runtime does not accept such inputs.
        ValueError: No result is finite.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = int(job["threads"]), 4
    # A pass over the graph crashes the process for some graphs (issue 28392 of ONNX Runtime).
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    path = str(Path(job["input"]["path"], _FILE))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return [_compute(session, job["input"], sizes, seed) for seed in range(2)]


def _compute(session: onnxruntime.InferenceSession, model: Json, sizes: Sizes, seed: int) -> Rows:
    """Return a finite result for rows that the model accepts; raises as ``compute_rows`` does."""
    problem: Exception = ValueError("no numbers from 0 to 1 have a finite result")
    names = [spec["name"] for spec in model["outputs"]]
    for whole in (None, 0, 1):  # random integers; else zeros, valid in every table; else ones, which no mask hides
        feeds = _draw(model["inputs"], sizes, seed=seed, whole=whole)
        try:
            found = [np.asarray(array) for array in session.run(names, feeds)]
        except Exception as error:  # noqa: BLE001 - its errors have no class in common
            problem = error
            continue
        if all(np.isfinite(array).all() for array in found):
            return Rows([*feeds.values()], found)
    raise problem


def _draw(inputs: list[Json], sizes: Sizes, *, seed: int, whole: int | None) -> dict[str, Array]:
    """Return random numbers from 0 to 1; integers all equal ``whole`` if given, else each row has a 1."""
    draw, found = np.random.default_rng(seed), {}
    for spec, size in zip(inputs, sizes, strict=True):
        dtype = np.dtype(spec["dtype"])
        if np.issubdtype(dtype, np.floating):
            array: Array = draw.random(size)
        elif whole is None:
            array = draw.integers(0, 2, size)
            array[..., 0] = 1
        else:
            array = np.full(size, whole)
        found[spec["name"]] = array.astype(dtype)
    return found
