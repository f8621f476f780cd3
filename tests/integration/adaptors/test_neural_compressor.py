"""neural-compressor's quantizers in their own environment."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from kedro_hone.adaptors.neural_compressor import adaptor as module
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

SMOOTH = "neural_compressor.int8-smooth"
WIDTH = 32
SPECS = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", WIDTH]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", WIDTH]}],
}


@pytest.fixture(scope="module")
def python(environments):
    environment = environments.ensure(module.TOOLCHAIN)
    assert environment.own  # its numpy and onnx are older than ours
    assert environment.versions["neural-compressor"] == "2.6"
    return environment.python


@pytest.fixture
def bench(make_bench, python):
    bench = make_bench(module)
    bench.python = python
    return bench


@pytest.fixture
def runtime(make_bench, tmp_path):
    bench = make_bench(onnxruntime)
    bench.scratch = tmp_path / "onnxruntime"
    return bench


@pytest.fixture
def outliers(tmp_path):
    """A product of matrices one of whose inputs is a hundred times as large as the others, and its calibration rows."""
    draw = np.random.default_rng(0)
    weight, rows = draw.normal(size=(WIDTH, WIDTH)).astype("f4"), draw.normal(size=(256, WIDTH)).astype("f4")
    rows[:, 0] *= 100
    weight[0] /= 100
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "g",
        sides[:1],
        sides[1:],
        [numpy_helper.from_array(weight, "w")],
    )
    (tmp_path / "outliers").mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "outliers" / "model.onnx")
    np.savez(tmp_path / "rows.npz", x=rows)
    return tmp_path / "outliers", tmp_path / "rows.npz", rows, rows @ weight


def measure_error(bench, runtime, name, outliers):
    folder, calibration, rows, expected = outliers
    _, output = bench.transform(name, folder, calibration=str(calibration), described=SPECS)
    (got,) = runtime.run(output, "onnx", [{"x": rows}], described=SPECS)
    return float(np.abs(got["y"] - expected).mean() / np.abs(expected).mean())


def test_smoothing_keeps_what_outliers_would_round_away(bench, runtime, make_bench, outliers, tmp_path):
    plain = make_bench(onnxruntime)
    plain.scratch = tmp_path / "plain"
    rounded = measure_error(plain, runtime, "onnxruntime.int8-static", outliers)
    assert measure_error(bench, runtime, SMOOTH, outliers) < rounded / 2


def test_convolutions_are_not_smoothed(bench, digits_onnx, digits_samples):
    notes, _ = bench.transform(SMOOTH, digits_onnx, calibration=str(digits_samples.calibration))
    assert "smooths convolutions wrongly" in notes["refused"]


def test_external_data_outside_the_folder_is_not_read(bench, tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"\0" * 64)
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="../secret.bin")
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", sides[:1], sides[1:], [weight])
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "model.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(AssertionError, match="outside the model's folder"):
        bench.transform(SMOOTH, tmp_path / "outside", calibration=str(tmp_path / "none.npz"), described=SPECS)
