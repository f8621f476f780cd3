"""IREE's adaptor in its own environment: compile, load in a new process, run at several batch sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

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


@pytest.mark.nightly
def test_sizes_are_fixed_where_the_compiler_cannot_leave_them_open(bench, berts):
    shapes = [{"name": "batch2", "sizes": {"batch": 2}}]
    notes, output = bench.transform("iree.cpu", berts / "dynamo", described=BERT, shapes=shapes)
    if "static_shapes" not in notes:
        pytest.skip("IREE leaves the sizes open for this CPU, as on some with AVX-512")
    assert notes["static_shapes"] == ["batch2"]  # the attention's vectors are too large otherwise, with data tiling
    assert {path.name for path in output.iterdir()} == {"model-batch2.vmfb", "names.json"}
    job = {"described": BERT, "static_shapes": shapes, "expect_error": True}
    feeds = [{name: np.ones((3, 16), np.int64) for name in ("ids", "mask")}]
    result, _ = bench.call("run", output, "iree-vmfb", feeds=feeds, **job)
    assert "compiled for the shapes" in result["raised"]


def test_an_error_of_the_compiler_names_the_operator(bench, berts):
    notes, _ = bench.transform("iree.cpu", berts / "dynamo", described=BERT)  # without a shape that could be fixed
    if "failed" not in notes:
        pytest.skip(
            "IREE compiles this for this CPU, as on some with AVX-512; tests/unit/adaptors/test_iree.py goes on"
        )
    assert notes["failed"]["class"] == "compile"
    assert notes["failed"]["reason"].endswith("(in MatMul)")


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
