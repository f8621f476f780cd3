"""Where ONNX Runtime ran each operator, read from real profiles; and what is refused of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.onnxruntime_gpu import adaptor as module

CUDA = "CUDAExecutionProvider"


@pytest.fixture(scope="module")
def worker():
    return load_file("gpu_session", str(module.TOOLCHAIN.worker.with_name("session.py")))


@pytest.fixture
def events(tmp_path) -> list[dict[str, object]]:
    """The profile of a product of matrices whose result is reshaped by its own computed sizes, on the CPU."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Reshape", ["h", "sizes"], ["y"]),
    ]
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 32]) for name in ("x", "y")]
    weight = numpy_helper.from_array(np.eye(32, dtype=np.float32), "w")
    graph = helper.make_graph(nodes, "g", sides[:1], sides[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.ones((2, 32), np.float32)})
    return json.loads(Path(session.end_profiling()).read_text())


def move(events, *operators: str):
    """Return the profile as if a GPU had run some operators."""
    return [
        {**event, "args": {**event["args"], "provider": CUDA}}
        if event.get("args", {}).get("op_name") in operators
        else event
        for event in events
    ]


def test_an_operator_that_computes_on_the_cpu_is_named(worker, events):
    placed = worker.read_placement(events)
    assert ("CPUExecutionProvider", "MatMul", 64) in placed
    with pytest.raises(worker.FallbackError, match=r"asked for CUDA\w+, and these operators ran on the CPU: 1 MatMul"):
        worker.require_placement(placed, CUDA)


def test_sizes_may_be_computed_on_the_cpu(worker, events):
    placed = worker.read_placement(move(events, "MatMul", "Reshape"))
    assert ("CPUExecutionProvider", "Shape", 2) in placed
    worker.require_placement(placed, CUDA)


def test_what_reshapes_data_on_the_cpu_computes_no_size(worker, events):
    with pytest.raises(worker.FallbackError, match="1 Reshape"):
        worker.require_placement(worker.read_placement(move(events, "MatMul")), CUDA)


def test_a_provider_that_computes_nothing_is_not_used(worker, events):
    placed = worker.read_placement(move(events, "MatMul", "Reshape"))
    with pytest.raises(worker.FallbackError, match="TensorrtExecutionProvider, which computed no operator"):
        worker.require_placement(placed, "TensorrtExecutionProvider")


def test_ones_have_the_shapes_of_the_recipe(worker):
    specs = [{"name": "x", "dtype": "float32", "shape": ["batch", 3]}, {"name": "n", "dtype": "int64", "shape": [2]}]
    feeds = worker.make_feeds(specs, {"batch": 5})
    assert {name: (array.shape, array.dtype.name) for name, array in feeds.items()} == {
        "x": ((5, 3), "float32"),
        "n": ((2,), "int64"),
    }
