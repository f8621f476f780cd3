"""Whether a model quantizes its activations, by the full names of its operators.

Only known names count. An author's ``VectorQuantizer``, or a quantile, is exact arithmetic; and weights that are only
dequantized do not change.
"""

from __future__ import annotations

import re
from typing import Final

from hone_runtime.values.artifact import Artifact

_ONNX: Final = re.compile(
    r"QuantizeLinear|FakeQuantize|DynamicQuantize(Linear|MatMul|LSTM)|Mat[Mm]ulInteger(16|ToFloat)?|ConvInteger"
    r"|QLinear(Conv|MatMul|Add|Mul|AveragePool|GlobalAveragePool|Concat|LeakyRelu|ReduceMean|Sigmoid|Softmax|Where)"
    r"|QAttention|QGemm|QEmbedLayerNormalization|QOrdered(Attention|Gelu|LayerNormalization|LongformerAttention|MatMul)"
    r"|QuantizeWithOrder"
)
_TORCH: Final = re.compile(
    r"(aten|quantized_decomposed)\.(fake_)?quantize_per_(tensor|channel|token)\w*"
    r"|aten\.fused_moving_avg_obs_fake_quant|aten\.quantized_(lstm|gru)(_cell)?"
    r"|quantized_decomposed\.(fake_)?quantize_per_channel_group"
    r"|torchao\.(quantize_affine|fake_quantize_affine)\w*"
    r"|(quantized|onednn)\.q?(linear|conv([123]d)?|conv_transpose[123]d)\w*?_dynamic"
    r"|quantized\.quantized_(lstm|gru|rnn_relu|rnn_tanh)_cell_dynamic"
)
"""Names with a dot after the namespace, and without the overload."""
_MODULES: Final = re.compile(
    r"torch\.ao\.(nn\.quantized|nn\.intrinsic\.quantized|nn\.quantizable)\.(?!reference\.)(dynamic\.)?"
    r"(?!Embedding|DeQuantize|Float|\w*Packed)\w+"
    r"|DynamicQuantized(Linear|LinearReLU|LSTM|GRU|Conv[123]d)"
    r"|torch\.ao\.quantization\.(\w+\.)*(FakeQuantize|FusedMovingAvgObsFakeQuantize|FixedQParamsFakeQuantize)"
)
_LITERT: Final = re.compile(r"QUANTIZE|FAKE_QUANT|[A-Z0-9_]+ of int8")
"""The names in LiteRT's worker; an int8 operator takes integers, or converts floats to integers for int8 weights."""
_ROUND: Final = re.compile(r"Round|ROUND|(aten\.)?round_?")


def quantizes(operator: str) -> bool:
    """Return whether an operator of this name quantizes activations."""
    name = _normalize(operator)
    return any(each.fullmatch(name) for each in (_ONNX, _TORCH, _MODULES, _LITERT))


def rounds(operator: str) -> bool:
    """Return whether an operator of this name quantizes or rounds; the comparison with the source depends on it."""
    return quantizes(operator) or _ROUND.fullmatch(_normalize(operator)) is not None


def quantizes_activations(source: Artifact) -> bool:
    """Return whether a model quantizes its activations, and not only its weights, which do not change."""
    return any(map(quantizes, _list_names(source)))


def is_quantized(source: Artifact) -> bool:
    """Return whether a model has operators that quantize: at a rounding threshold small differences become large."""
    return any(map(rounds, _list_names(source)))


def _list_names(source: Artifact) -> list[str]:
    listed = source.metadata.get("operators")
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []


def _normalize(name: str) -> str:
    """Return a name with a dot after the namespace, and without the overload."""
    return re.sub(r"^((?!torch\.)\w+\.\w+)\.\w+$", r"\1", name.replace("::", "."))
