"""Operators by precision of small ONNX graphs, as ONNX Runtime executes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers.float16 import convert_float_to_float16

from hone_runtime.worker.packages import import_worker
from kedro_hone.adaptors.onnxruntime.adaptor import TOOLCHAIN

import_worker(str(TOOLCHAIN.worker))
from hone_onnxruntime import operators  # noqa: E402 - of the worker that was imported

FEEDS = {"x": np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)}


class Rows(CalibrationDataReader):
    def __init__(self) -> None:
        self.left = 4

    def get_next(self):
        self.left -= 1
        return FEEDS if self.left >= 0 else None


@pytest.fixture
def network(tmp_path) -> Path:
    """Two products of matrices with a ReLU between them."""
    draw = np.random.default_rng(0)
    weights = {"a": (64, 128), "b": (128, 32)}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    return save(tmp_path / "fp32.onnx", nodes, {name: draw.normal(size=size) for name, size in weights.items()})


def save(path: Path, nodes, weights=()) -> Path:
    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", None])] for name in ("x", "y")]
    arrays = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "net", *sides, arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def count(path: Path):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return operators.count(path, options, FEEDS)


def test_a_graph_of_float32_has_no_other_operators(network):
    assert count(network) == {"fp32": {"MatMul": 2, "Relu": 1}}


def test_static_int8_is_counted_as_fused_and_what_converts_apart(network, tmp_path):
    quantize_static(network, tmp_path / "q.onnx", Rows(), quant_format=QuantFormat.QDQ)
    found = count(tmp_path / "q.onnx")
    assert found["int8"]["QLinearMatMul"] == 2
    assert found["other"] == {"QuantizeLinear": 1, "DequantizeLinear": 1}
    assert "fp32" not in found


@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic_int8_has_weights_that_the_profile_does_not_show(network, tmp_path, per_channel):
    quantize_dynamic(network, tmp_path / "q.onnx", per_channel=per_channel, extra_options={"WeightSymmetric": True})
    assert count(tmp_path / "q.onnx") == {"int8": {"DynamicQuantizeMatMul": 2}, "fp32": {"Relu": 1}}


def test_weights_of_four_bits_are_int4(network, tmp_path):
    quantizer = MatMulNBitsQuantizer(onnx.load(network), bits=4, block_size=32, is_symmetric=True)
    quantizer.process()
    quantizer.model.save_model_to_file(str(tmp_path / "q.onnx"))
    assert count(tmp_path / "q.onnx") == {"int4": {"MatMulNBits": 2}, "fp32": {"Relu": 1}}


def test_what_the_cpu_computes_in_float32_is_not_fp16(network, tmp_path):
    """ONNX Runtime inserts casts where the CPU has no kernel for fp16; all its kernels for MatMul are of that kind."""
    onnx.save(convert_float_to_float16(onnx.load(network), keep_io_types=True), tmp_path / "q.onnx")
    found = count(tmp_path / "q.onnx")
    assert "int8" not in found
    assert sum(kinds.get("MatMul", 0) for kinds in found.values()) == 2
    session = ort.InferenceSession(tmp_path / "q.onnx", providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].type == "tensor(float)"


def test_sizes_and_indices_are_other_operators(tmp_path):
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("ConstantOfShape", ["s"], ["y"])]
    assert count(save(tmp_path / "net.onnx", nodes)) == {"other": {"Shape": 1}, "fp32": {"ConstantOfShape": 1}}


def test_an_operator_in_the_body_of_a_loop_counts_once(tmp_path):
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["v", "v"], ["w"], name="square"),
            helper.make_node("Identity", ["c"], ["d"], name="keep"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, ["batch", None]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, ["batch", None]),
        ],
    )
    turns = helper.make_node("Constant", [], ["n"], value=numpy_helper.from_array(np.array(5)))
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    assert count(save(tmp_path / "net.onnx", [turns, loop]))["fp32"]["Mul"] == 1
