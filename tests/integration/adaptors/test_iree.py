"""IREE's adaptor in its own environment: compile, load in a new process, run at several batch sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from kedro_hone.adaptors.iree import adaptor as module
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime

pytestmark = pytest.mark.toolchain

BATCHES = (1, 7, 64)
SPECS = {
    "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}],
}
BERT = {
    "inputs": [{"name": name, "dtype": "int64", "shape": ["batch", 16]} for name in ("ids", "mask")],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 4]}],
}
GRU = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3, 4]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 1, 3, 5]}],
}


@pytest.fixture(scope="module")
def python(environments):
    environment = environments.ensure(module.TOOLCHAIN)
    assert environment.versions["iree-base-runtime"].startswith("3.13.")
    return environment.python


@pytest.fixture
def bench(make_bench, python):
    bench = make_bench(module)
    bench.python = python
    return bench


@pytest.fixture
def reference(make_bench, tmp_path):
    """ONNX Runtime, in the interpreter that runs the tests."""
    bench = make_bench(onnxruntime)
    bench.scratch = tmp_path / "onnxruntime"
    return bench


def transform(bench, path, **options):
    return bench.transform("iree.cpu", path, options=options, described=SPECS)


@pytest.mark.parametrize("tuned", [True, False])
def test_the_answers_are_those_of_onnx_runtime(bench, reference, digits_onnx, digits_samples, tuned):
    notes, output = transform(bench, digits_onnx, data_tiling=tuned, im2col=tuned)
    assert notes["metadata"]["normalized"]["opset"] == [20, 20]
    assert "static_shapes" not in notes
    feeds = [{"image": digits_samples.x[:size]} for size in BATCHES]
    got = bench.run(output, "iree-vmfb", feeds, described=SPECS)
    for have, want in zip(got, reference.run(digits_onnx, "onnx", feeds), strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], atol=1e-4)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["dynamo", "raw", "domains"])
def test_every_export_of_a_bert_is_taken(bench, reference, berts, name):
    shapes = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 3)]
    notes, output = bench.transform("iree.cpu", berts / name, described=BERT, shapes=shapes)
    fixed = [shape for shape in shapes if shape["name"] in notes.get("static_shapes", [])]
    sizes = [shape["sizes"]["batch"] for shape in fixed] or [1, 2, 3]
    draw = np.random.default_rng(1)
    feeds = [{"ids": draw.integers(1, 100, (size, 16)), "mask": np.ones((size, 16), np.int64)} for size in sizes]
    got = bench.run(output, "iree-vmfb", feeds, described=BERT, static_shapes=fixed)
    for have, want in zip(got, reference.run(berts / name, "onnx", feeds), strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], atol=1e-5)


@pytest.fixture
def gru(tmp_path):
    """A GRU with a free batch, which IREE's compiler takes with a fixed one only, on every CPU."""
    draw = np.random.default_rng(0)
    weights = {name: draw.normal(size=(1, 15, size)).astype(np.float32) for name, size in (("w", 4), ("r", 5))}
    node = helper.make_node("GRU", ["x", *weights], ["y"], hidden_size=5)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1, 3, 5])
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph([node], "gru", [x], [y], constants)
    folder = tmp_path / "gru"
    folder.mkdir()
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx"
    )
    return folder


def test_sizes_are_fixed_where_the_compiler_cannot_leave_them_open(bench, reference, gru):
    shapes = [{"name": "batch2", "sizes": {"batch": 2}}]
    notes, output = bench.transform("iree.cpu", gru, described=GRU, shapes=shapes)
    assert notes["static_shapes"] == ["batch2"]
    assert {path.name for path in output.iterdir()} == {"model-batch2.vmfb", "names.json"}
    job = {"described": GRU, "static_shapes": shapes}
    feeds = [{"x": np.ones((size, 3, 4), np.float32)} for size in (2, 3)]
    (have,), (want, _) = bench.run(output, "iree-vmfb", feeds[:1], **job), reference.run(gru, "onnx", feeds)
    np.testing.assert_allclose(have["y"], want["y"], atol=1e-5)
    result, _ = bench.call("run", output, "iree-vmfb", feeds=feeds[1:], expect_error=True, **job)
    assert "compiled for the shapes" in result["raised"]


def test_an_error_of_the_compiler_names_the_operator(bench, gru):
    notes, _ = bench.transform("iree.cpu", gru, described=GRU)  # without a shape that could be fixed
    assert notes["failed"]["class"] == "compile"
    assert notes["failed"]["reason"].endswith("(in GRU)")


def test_quantized_models_are_refused(bench, reference, digits_onnx, digits_samples):
    calibration = str(digits_samples.calibration)
    _, quantized = reference.transform("onnxruntime.int8-static", digits_onnx, calibration=calibration)
    notes, _ = transform(bench, quantized)
    assert "QuantizeLinear" in notes["refused"]


def test_half_precision_and_foreign_operators_are_refused(bench, tmp_path):
    save(tmp_path / "half", helper.make_node("Relu", ["x"], ["y"]), TensorProto.FLOAT16)
    assert "float16" in transform(bench, tmp_path / "half")[0]["refused"]
    save(tmp_path / "foreign", helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"), TensorProto.FLOAT)
    assert "com.microsoft" in transform(bench, tmp_path / "foreign")[0]["refused"]


def test_what_the_importer_cannot_do_is_an_expected_failure(bench, tmp_path):
    save(tmp_path / "model", helper.make_node("StringNormalizer", ["x"], ["y"]), TensorProto.STRING)
    notes, _ = transform(bench, tmp_path / "model")
    assert notes["failed"]["class"] in ("convert", "compile")
    assert str(tmp_path) not in notes["failed"]["reason"]


def save(folder, node, kind):
    """Write a model of one operator on a vector."""
    folder.mkdir()
    x, y = (helper.make_tensor_value_info(name, kind, [4]) for name in ("x", "y"))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "one", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")


def test_another_device_than_the_cpu_is_refused(bench, digits_onnx):
    result, _ = bench.call("run", digits_onnx, "iree-vmfb", device="cuda:0", expect_error=True)
    assert "for the device cuda:0" in result["raised"]
