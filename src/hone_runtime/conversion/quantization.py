"""Recognize operators that quantize or round numbers, by their full names in ONNX, PyTorch and LiteRT.

Only known names count. An author's ``VectorQuantizer``, or a quantile, is exact arithmetic; and weights that are only
dequantized do not change. Standard library only.
"""

from __future__ import annotations

import re

_ONNX = re.compile(
    r"QuantizeLinear|FakeQuantize|DynamicQuantize(Linear|MatMul|LSTM)|Mat[Mm]ulInteger(16|ToFloat)?|ConvInteger"
    r"|QLinear(Conv|MatMul|Add|Mul|AveragePool|GlobalAveragePool|Concat|LeakyRelu|ReduceMean|Sigmoid|Softmax|Where)"
    r"|QAttention|QGemm|QEmbedLayerNormalization|QOrdered(Attention|Gelu|LayerNormalization|LongformerAttention|MatMul)"
    r"|QuantizeWithOrder"
)
_TORCH = re.compile(
    r"(aten|quantized_decomposed)\.(fake_)?quantize_per_(tensor|channel|token)\w*"
    r"|aten\.fused_moving_avg_obs_fake_quant|aten\.quantized_(lstm|gru)(_cell)?"
    r"|quantized_decomposed\.(fake_)?quantize_per_channel_group"
    r"|torchao\.(quantize_affine|fake_quantize_affine)\w*"
    r"|(quantized|onednn)\.q?(linear|conv([123]d)?|conv_transpose[123]d)\w*?_dynamic"
    r"|quantized\.quantized_(lstm|gru|rnn_relu|rnn_tanh)_cell_dynamic"
)
"""Names with a dot after the namespace, and without the overload."""
_MODULES = re.compile(
    r"torch\.ao\.(nn\.quantized|nn\.intrinsic\.quantized|nn\.quantizable)\.(?!reference\.)(dynamic\.)?"
    r"(?!Embedding|DeQuantize|Float|\w*Packed)\w+"
    r"|DynamicQuantized(Linear|LinearReLU|LSTM|GRU|Conv[123]d)"
    r"|torch\.ao\.quantization\.(\w+\.)*(FakeQuantize|FusedMovingAvgObsFakeQuantize|FixedQParamsFakeQuantize)"
)
_LITERT = re.compile(r"QUANTIZE|FAKE_QUANT|[A-Z0-9_]+ of int8")
"""The names in LiteRT's worker; an int8 operator takes integers, or converts floats to integers for int8 weights."""
_ROUND = re.compile(r"Round|ROUND|(aten\.)?round_?")


def quantizes(operator: str) -> bool:
    """Return whether an operator of this name quantizes activations."""
    name = _normalize(operator)
    return any(each.fullmatch(name) for each in (_ONNX, _TORCH, _MODULES, _LITERT))


def rounds(operator: str) -> bool:
    """Return whether an operator of this name quantizes or rounds; the comparison with the source depends on it."""
    return quantizes(operator) or _ROUND.fullmatch(_normalize(operator)) is not None


def _normalize(name: str) -> str:
    """Return a name with a dot after the namespace, and without the overload."""
    return re.sub(r"^((?!torch\.)\w+\.\w+)\.\w+$", r"\1", name.replace("::", "."))
