"""Fuse a transformer's operators: attention, embeddings with norm, norm with residual, GELU with bias.

ONNX Runtime performs simple fusions itself when it opens a graph; attention only with these scripts of its package.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from . import graphs

Json = dict[str, Any]

_LIKE_BERT = "bert"  # its patterns are the most general, and they find heads and width in the graph
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
_WIDTHS = ("hidden_size", "n_embd", "dim", "d_model")
_VIEWS = {"Cast", "Identity", "Unsqueeze", "Reshape"}
_REACH = 8  # the largest number of operators (masks, scales, views) between two that belong together

NO_ATTENTION = (
    "no attention of the graph could be fused, and the rest ONNX Runtime fuses by itself (attention can be fused if "
    "the model was exported with eager attention and through TorchScript)"
)


def transform(job: Json) -> Json:
    """Write ``model.onnx`` with fused attention into the job's output, and return notes."""
    model = graphs.read(Path(job["input"]["path"]))
    before, fused = graphs.count_fused(model), fuse(job, model)
    gained = graphs.count_fused(fused) - before
    if not graphs.ATTENTION & gained.keys():
        return {"nothing_to_do": NO_ATTENTION}
    large = graphs.is_large(fused)
    onnx.save(fused, Path(job["output"]) / "model.onnx", save_as_external_data=large, location="model.onnx.data")
    return {"metadata": {"fused_operators": dict(sorted(gained.items()))}}


def fuse(job: Json, model: Any) -> Any:
    """Return a model with fused operators, for the known patterns.

    No constants are folded, so that the result fits every CPU.

    Args:
        job: The worker's job. Its metadata has the configuration if the source is a model of Transformers. For other
            sources, the option ``model_type`` names a family.
        model: The ONNX model.
    """
    if not {"Softmax", "Attention"} & graphs.count(model).keys():  # nothing to fuse, and the import takes seconds
        return model
    from onnxruntime.transformers import optimizer

    config = job["input"].get("metadata", {}).get("transformers", {}).get("config", {})
    chosen = job["options"]["model_type"]
    kind = str(config.get("model_type")) if chosen == "auto" else chosen
    heads, width = _read_sizes(config) or find_sizes(model)
    for name in dict.fromkeys((kind if kind in optimizer.MODEL_TYPES else _LIKE_BERT, _LIKE_BERT)):
        fused = _fuse_as(model, name, heads=heads, width=width)
        if graphs.ATTENTION & graphs.count_fused(fused).keys():
            return fused
    return model


def _fuse_as(model: Any, kind: str, *, heads: int, width: int) -> Any:
    from onnxruntime.transformers import fusion_options, optimizer

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]  # exporters' shapes, which would contradict the fused operators
    options = fusion_options.FusionOptions(kind)
    if any(node.op_type == "LayerNormalization" and len(node.input) < 3 for node in copy.graph.node):
        options.enable_skip_layer_norm = False  # the fusion reads a bias, which ModernBERT's norms do not have
    options.use_raw_attention_mask(
        use_raw_mask=True
    )  # by default a mask becomes a length, which is wrong for left padding and for gaps
    fused = optimizer.optimize_by_fusion(copy, kind, heads, width, options).model
    if all(each.domain != graphs.OWN for each in fused.opset_import):
        fused.opset_import.append(onnx.helper.make_opsetid(graphs.OWN, 1))
    return fused


def _read_sizes(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the numbers of heads and of features in a configuration; None if absent."""
    heads, width = (next((config[key] for key in keys if key in config), None) for keys in (_HEADS, _WIDTHS))
    if not isinstance(heads, int) or not isinstance(width, int):
        return None
    return (heads, width) if heads > 0 and width % heads == 0 else None


def find_sizes(model: Any) -> tuple[int, int]:
    """Return the numbers of heads and of features of the first attention; (0, 0) if they are not in the graph.

    The input of the softmax is a product of queries and keys. The queries come from a linear layer, whose width is that
    of its weight, through a reshape that ends with the width of one head.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for softmax in (node for node in model.graph.node if node.op_type == "Softmax"):
        product = _climb(softmax.input[0], "MatMul", makers)
        reshape = product and _climb(product.input[0], "Reshape", makers)
        linear = reshape and _climb(reshape.input[0], "MatMul", makers)
        if linear and linear.input[1] in weights:
            width, head = weights[linear.input[1]].dims[-1], _read_last(reshape.input[1], makers, weights)
            if head > 0 and width % head == 0:
                return width // head, width
    return 0, 0


def _climb(name: str, kind: str, makers: Mapping[str, Any]) -> Any:
    """Return the nearest node of a given type from which a tensor is computed; None if absent."""
    level = [name]
    for _ in range(_REACH):
        nodes = [makers[each] for each in level if each in makers]
        if found := next((node for node in nodes if node.op_type == kind), None):
            return found
        level = [each for node in nodes for each in node.input]
    return None


def _read_last(name: str, makers: Mapping[str, Any], weights: Mapping[str, Any]) -> int:
    """Return the last number of a shape that is constant, or concatenated with a constant last part; else 0."""
    if name in weights:
        return int(onnx.numpy_helper.to_array(weights[name]).flat[-1])
    node = makers.get(name)
    if node is None:
        return 0
    if node.op_type == "Constant":
        value = onnx.helper.get_attribute_value(node.attribute[0])
        array = onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
        return int(array.flat[-1])
    if node.op_type == "Concat":
        return _read_last(node.input[-1], makers, weights)
    return _read_last(node.input[0], makers, weights) if node.op_type in _VIEWS else 0
