"""The precision of operators, from the types of the numbers that they read and write."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.sessions.operators import count_kinds, count_operators, find_precision


@pytest.mark.parametrize(
    ("kind", "read", "written", "due"),
    [
        ("MatMul", ["float", "float"], ["float"], "fp32"),
        ("FullyConnected", ["f32", "u4", "f32"], ["f32"], "int4"),
        ("Convolution", ["u8", "i8"], ["f32"], "int8"),
        ("LayerNormalization", ["float16", "float"], ["float16"], "fp16"),
        ("FullyConnected", ["bf16", "bf16"], ["bf16"], "bf16"),
        ("aten.add", ["float32", "int64"], ["float32"], "fp32"),
        ("ArgMax", ["float"], ["int64"], "fp32"),
        ("Gather", ["int64", "int64"], ["int64"], "other"),
        ("Gemm", ["double"], ["double"], "other"),
        ("Not", ["bool"], ["bool"], "other"),
    ],
)
def test_the_narrowest_quantized_type_counts_and_else_the_floating_point_numbers(kind, read, written, due):
    assert find_precision(kind, read, written) == due


@pytest.mark.parametrize(
    "kind", ["QuantizeLinear", "DequantizeLinear", "Cast", "Reorder", "FakeQuantize", "QUANTIZE", "aten._to_copy"]
)
def test_a_conversion_is_no_operator_of_its_type(kind):
    assert find_precision(kind, ["float32"], ["int8"]) == "other"


def test_operators_are_counted_by_precision_and_kind():
    rows = [("Conv", ["float"], ["float"]), ("Relu", ["float"], ["float"]), ("Conv", ["float"], ["float"])]
    assert count_kinds([*rows, ("QLinearConv", ["int8"], ["int8"])]) == {
        "fp32": {"Conv": 2, "Relu": 1},
        "int8": {"QLinearConv": 1},
    }
    assert count_kinds([]) == {}


def test_a_session_without_the_method_is_not_known():
    assert count_operators(SimpleNamespace(run=None), {}) is None
