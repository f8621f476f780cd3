"""Detect graphs that crash ONNX Runtime, and name the graph pass that must be disabled for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

LEFT_OUT = "MatmulTransposeFusion"
"""It moves a cast between a transposition and a matrix product, and leaves unresolved operators. A later pass for x86,
``NchwcTransformer``, then follows a null pointer (issue 28392 of ONNX Runtime, from 1.24; also in 1.31.1)."""

_CASTS = frozenset({"Cast", "CastLike"})
_STOPS = frozenset({"MatMul", "Gemm", "Conv", "Shape", "Gather", "LayerNormalization"})
"""No transposition is moved past these operators."""


def may_crash(model: Any, nodes: Iterable[Any], tensors: Iterable[Any]) -> bool:
    """Return whether ``LEFT_OUT`` may find a cast after a transposition in a model.

    In fp16, ONNX Runtime adds the casts itself. The types inside functions are not inspected, but assumed to be fp16.

    Args:
        model: The model.
        nodes: Its operators, including those of subgraphs and functions.
        tensors: Its weights and constants.
    """
    own = [*nodes]
    if not {"Transpose", "MatMul"} <= {node.op_type for node in own}:
        return False
    types = {attribute.i for node in own for attribute in node.attribute if attribute.name in {"to", "output_dtype"}}
    types |= {tensor.data_type for tensor in tensors}
    types |= {value.type.tensor_type.elem_type for value in model.graph.input}
    if onnx.TensorProto.FLOAT16 in types or model.functions:
        return True
    makers = {name: node for node in own for name in node.output if name}
    return any(_find_transposed(node, makers) for node in own if node.op_type in _CASTS)


def _find_transposed(cast: Any, makers: dict[str, Any]) -> bool:
    seen, left = set[str](), [*cast.input]
    while left:
        name = left.pop()
        node = makers.get(name)
        if node is None or name in seen or node.op_type in _STOPS:
            continue
        if node.op_type == "Transpose":
            return True
        seen.add(name)
        left += node.input
    return False
