"""DeepSparse's adaptor in its own environment: lower, load in a new process, run the shapes that it was made for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hone_runtime.contract.toolchain import Licence
from kedro_hone.adaptors.deepsparse import adaptor as module
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime

pytestmark = pytest.mark.toolchain

SPECS = {
    "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}],
}
BERT = {
    "inputs": [{"name": name, "dtype": "int64", "shape": ["batch", 16]} for name in ("ids", "mask")],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 4]}],
}
SIDES = {"image": ["batch", 4], "logits": ["batch"]}
SPEC = {"name": "logits", "dtype": "float32"}
SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 64)]


@pytest.fixture(scope="module")
def python(environments):
    environment = environments.ensure(module.TOOLCHAIN)
    assert environment.own  # its numpy is another than ours
    assert environment.versions["deepsparse"] == "1.8.0"
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


def transform(bench, path):
    return bench.transform("deepsparse.engine", path, described=SPECS, shapes=SHAPES)


def run(bench, path, feeds, **job):
    return bench.run(path, "deepsparse-onnx", feeds, described=SPECS, shapes=SHAPES, **job)


def test_it_is_for_evaluation_and_off_by_default():
    assert module.TOOLCHAIN.licence is Licence.EVALUATION
    assert not module.TOOLCHAIN.default


def test_the_predictions_are_those_of_onnx_runtime_at_its_own_shapes(bench, reference, digits_onnx, digits_samples):
    notes, output = transform(bench, digits_onnx)  # opset 20 and IR 10, which the engine refuses as they are
    assert notes["static_shapes"] == ["batch1", "batch64"]
    assert bench.describe(output, "deepsparse-onnx") == SPECS
    feeds = [{"image": digits_samples.x[:size]} for size in (1, 64)]
    for have, want in zip(run(bench, output, feeds), reference.run(digits_onnx, "onnx", feeds), strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], atol=1e-4)
    other = [{"image": digits_samples.x[:7]}]
    job = {"described": SPECS, "shapes": SHAPES, "feeds": other, "expect_error": True}
    result, _ = bench.call("run", output, "deepsparse-onnx", **job)
    assert "fed" in result["raised"]


def test_int8_from_onnx_runtime_keeps_its_accuracy(bench, reference, digits_onnx, digits_samples):
    calibration = str(digits_samples.calibration)
    _, quantized = reference.transform("onnxruntime.int8-static", digits_onnx, calibration=calibration)
    notes, output = transform(bench, quantized)
    assert "static_shapes" in notes
    parts = run(bench, output, [{"image": digits_samples.x[start : start + 64]} for start in range(0, 512, 64)])
    predictions = np.concatenate([part["logits"] for part in parts]).argmax(1)
    assert (predictions == digits_samples.y).mean() > 0.97


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["raw", "dynamo", "domains"])
def test_every_export_of_a_bert_is_taken(bench, reference, berts, name):
    notes, output = bench.transform("deepsparse.engine", berts / name, described=BERT, shapes=SHAPES[:1])
    assert notes["static_shapes"] == ["batch1"]
    assert notes["metadata"]["normalized"]["opset"][1] == 17
    feeds = [{"ids": np.random.default_rng(1).integers(1, 100, (1, 16)), "mask": np.ones((1, 16), np.int64)}]
    want = reference.run(berts / name, "onnx", feeds)[0]["logits"]
    have = bench.run(output, "deepsparse-onnx", feeds, described=BERT, shapes=SHAPES[:1])[0]["logits"]
    np.testing.assert_allclose(have, want, atol=1e-5)


def test_a_quantized_model_whose_means_name_their_axes_as_inputs_is_taken(bench, tmp_path):
    """Such a mean is in no opset below 18, and the engine quantizes in none above it."""
    values = {"scale": np.float32(0.1), "zero": np.uint8(128), "axes": np.array([1])}
    nodes = [
        helper.make_node("QuantizeLinear", ["image", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("ReduceMean", ["d", "axes"], ["logits"], keepdims=0),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in SIDES.items())
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8), tmp_path / "model.onnx"
    )
    described = {"inputs": [SPEC | {"name": "image", "shape": ["batch", 4]}], "outputs": [SPEC | {"shape": ["batch"]}]}
    notes, output = bench.transform("deepsparse.engine", tmp_path, described=described, shapes=SHAPES[:1])
    assert notes["metadata"]["normalized"]["opset"] == [20, 18]
    feeds = {"image": np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)}
    (found,) = bench.run(output, "deepsparse-onnx", [feeds], described=described, shapes=SHAPES[:1])
    np.testing.assert_allclose(found["logits"], [0.25], atol=1e-6)


def test_what_the_engine_cannot_read_is_refused(bench, tmp_path):
    cases = {
        "float16": (helper.make_node("Relu", ["x"], ["y"]), TensorProto.FLOAT16, 17),
        "com.microsoft": (helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"), TensorProto.FLOAT, 17),
        "opset 18: that has no ImageDecoder": (helper.make_node("ImageDecoder", ["x"], ["y"]), TensorProto.UINT8, 20),
    }
    for words, (node, kind, opset) in cases.items():
        folder = tmp_path / words.replace(" ", "-")
        folder.mkdir()
        x, y = (helper.make_tensor_value_info(name, kind, [4]) for name in ("x", "y"))
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        graph = helper.make_graph([node], "one", [x], [y])
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")
        notes, _ = transform(bench, folder)
        assert words in notes["refused"]


def test_another_device_than_the_cpu_is_refused(bench, digits_onnx):
    result, _ = bench.call("run", digits_onnx, "deepsparse-onnx", device="cuda:0", expect_error=True)
    assert "for the device cuda:0" in result["raised"]
