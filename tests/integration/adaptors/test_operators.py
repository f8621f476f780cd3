"""Operators by precision, as real runtimes report them for a loaded model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.adaptors.openvino import adaptor as openvino
from kedro_hone.adaptors.pytorch import adaptor as pytorch

pytestmark = pytest.mark.toolchain

RECORDED = Path(__file__).parents[2] / "toolchains" / "litert" / "digits"
SPECS = {
    "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}],
}
SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 64)]
F32 = {"INFERENCE_PRECISION_HINT": "f32"}
TOKENS = {name: np.ones((2, 16), np.int64) for name in ("ids", "mask")}


@pytest.fixture
def feeds(digits_samples):
    return [{"image": digits_samples.x[:batch]} for batch in (1, 64)]


@pytest.fixture
def calibration(digits_samples):
    return {"calibration": str(digits_samples.calibration)}


def precisions(counts) -> set[str]:
    """Return the precisions of the operators that compute."""
    return {*counts} - {"other"}


@pytest.mark.parametrize(
    "case", [("int8-dynamic", "int8"), ("int8-static", "int8"), ("int4-weights", "int4"), (None, "fp32")], ids=str
)
def test_onnx_runtime_executes_the_precision_of_the_quantizer(make_bench, digits_onnx, calibration, feeds, case):
    bench, path, (name, due) = make_bench(onnxruntime), digits_onnx, case
    if name:
        path = bench.transform(f"onnxruntime.{name}", path, **calibration)[1]
    for counts in bench.count_operators(path, "onnx", feeds):
        assert due in counts
        assert precisions(counts) <= {due, "fp32"}


def test_onnx_runtime_counts_the_graph_of_each_shape(make_bench, digits_onnx, feeds):
    bench = make_bench(onnxruntime)
    notes, output = bench.transform("onnxruntime.session", digits_onnx, shapes=SHAPES)
    options = {"graph_optimization": "disabled"}
    found = bench.count_operators(output, "onnx", feeds, run_options=options, metadata=notes["metadata"])
    assert [precisions(counts) for counts in found] == [{"fp32"}] * 2


@pytest.mark.parametrize(
    "case", [("int8-ptq", "int8"), ("int8-weights", "int8"), ("int4-weights", "int4"), (None, "fp32")], ids=str
)
def test_openvino_executes_the_precision_of_the_quantizer(make_bench, digits_onnx, calibration, feeds, case):
    name, due = case
    bench = make_bench(openvino)
    path = bench.transform("openvino.ir", digits_onnx, form="onnx", described=SPECS)[1]
    if name:
        path = bench.transform(f"openvino.{name}", path, **calibration)[1]
    for counts in bench.count_operators(path, "openvino-ir", feeds, run_options=F32):
        assert due in counts
        last = {"int8"} if due == "int4" else set()  # NNCF stores the last layer in eight bits
        assert precisions(counts) <= {due, "fp32", *last}


def test_masks_of_booleans_are_no_int8(make_bench, berts):
    """OpenVINO stores booleans in the type of eight-bit integers."""
    bench, form = make_bench(openvino), "openvino-ir"
    specs = {
        "inputs": [{"name": name, "dtype": "int64", "shape": ["batch", 16]} for name in TOKENS],
        "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 4]}],
    }
    path = bench.transform("openvino.ir", berts / "raw", form="onnx", described=specs)[1]
    (counts,) = bench.count_operators(path, form, [TOKENS], run_options=F32)
    assert precisions(counts) == {"fp32"}
    path = bench.transform("openvino.int8-weights", path)[1]
    (counts,) = bench.count_operators(path, form, [TOKENS], run_options=F32)
    assert counts["int8"]["FullyConnected"] > 10
    assert "Reshape" not in counts["int8"]
    (counts,) = make_bench(onnxruntime).count_operators(berts / "raw", "onnx", [TOKENS])
    assert precisions(counts) == {"fp32"}


@pytest.mark.parametrize("case", [("xnnpack", {"fp32"}), ("int8-static", {"int8"})], ids=str)
def test_litert_lists_the_operators_of_its_file(runtime, calibration, tmp_path, feeds, case):
    (name, due), recorded = case, Path(shutil.copytree(RECORDED, tmp_path / "recorded"))
    terms = {"described": SPECS, "static_shapes": SHAPES}
    output = runtime.transform(f"litert.{name}", recorded, **calibration, **terms)[1]
    for counts in runtime.count_operators(output, "tflite", feeds, **terms):
        assert precisions(counts) == due


def test_pytorch_counts_what_it_dispatches(make_bench, digits_module, digits_exported, feeds):
    bench, terms = make_bench(pytorch), {"described": SPECS, "trust": ["module"]}
    for path, form in ((digits_module, "pytorch-module"), (digits_exported, "pytorch")):
        for counts in bench.count_operators(path, form, feeds, **terms):
            assert precisions(counts) == {"fp32"}
            assert sum(counts["fp32"].values()) > 3
