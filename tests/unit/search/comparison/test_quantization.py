"""Only whole names of operators that quantize activations take a conversion's duty to agree from it."""

from __future__ import annotations

import pytest

from hone_runtime.values.artifact import Artifact
from kedro_hone.search.comparison.quantization import quantizes_activations, rounds_values


def describe(*operators: str) -> Artifact:
    return Artifact(format="onnx", digest="", inputs=(), outputs=(), metadata={"operators": list(operators)})


@pytest.mark.parametrize(
    "name",
    [
        *("aten.quantile", "aten.nanquantile", "aten::quantile", "VectorQuantizer", "QuantizerHead", "MyQLinear"),
        *("GroundTruth", "mylib.quantize_per_tensor", "mylib::quantized_thing", "quantile", "aten.equalize"),
        *("Dequantize", "AuthorsQuantizeLinear", "QuantizeLinearHead", "app.models.QuantizeLinear", "VectorQuantize"),
    ],
)
def test_a_name_that_only_contains_the_word_does_not_quantize(name):
    assert not rounds_values(describe("aten.linear", name))
    assert not quantizes_activations(describe("aten.linear", name))


@pytest.mark.parametrize(
    "name",
    [
        *("DequantizeLinear", "MatMulNBits", "DEQUANTIZE", "quantized_decomposed.dequantize_per_tensor"),
        *("quantized_decomposed.dequantize_per_channel", "torchao.dequantize_affine", "aten::dequantize"),
        *("quantized::linear_dynamic_fp16", "quantized::embedding_byte", "torch.ao.nn.quantized.Embedding"),
        *("torch.ao.nn.quantized.dynamic.EmbeddingPackedParams", "torch.ao.nn.quantized.LinearPackedParams"),
    ],
)
def test_weights_that_are_only_read_are_no_activations(name):
    assert not quantizes_activations(describe(name, "aten.linear"))


@pytest.mark.parametrize(
    "name",
    [
        *("QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger", "ConvInteger"),
        *("QLinearConv", "QLinearMatMul", "QLinearAdd", "QAttention", "QGemm", "MatmulInteger16", "FakeQuantize"),
        *("aten.quantize_per_tensor", "aten.quantize_per_tensor_dynamic", "aten::quantize_per_channel"),
        *("aten.fake_quantize_per_tensor_affine", "aten.quantize_per_tensor.default", "aten::quantized_lstm"),
        *("quantized::linear_dynamic", "quantized::linear_relu_dynamic", "quantized.conv2d_relu_dynamic"),
        *("quantized_decomposed.quantize_per_tensor", "quantized_decomposed.quantize_per_token"),
        *("quantized_decomposed.quantize_per_tensor.tensor", "torchao.quantize_affine"),
        *("torch.ao.nn.quantized.dynamic.Linear", "torch.ao.nn.quantized.Conv2d", "torch.ao.nn.quantized.Quantize"),
        *("torch.ao.nn.intrinsic.quantized.dynamic.LinearReLU", "torch.ao.quantization.FakeQuantize"),
        "torch.ao.quantization.fake_quantize.FakeQuantize",
        *("QUANTIZE", "FULLY_CONNECTED of int8"),
    ],
)
def test_what_quantizes_activations_is_known(name):
    assert quantizes_activations(describe("Relu", name))
    assert rounds_values(describe("Relu", name))


@pytest.mark.parametrize("name", ["Round", "aten.round", "aten::round", "ROUND"])
def test_a_rounding_may_be_a_part_of_quantizing_and_is_none_by_itself(name):
    assert rounds_values(describe(name))
    assert not quantizes_activations(describe(name))
