"""Find the heads of attention in a module, so that whole heads are pruned."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

_aten = torch.ops.aten
_ATTENTION = _aten.scaled_dot_product_attention.default
_VIEWS = {_aten.view.default, _aten.reshape.default}
_MOVES = {
    *_VIEWS,
    *(_aten.transpose.int, _aten.permute.default, _aten.contiguous.default, _aten.clone.default),
    *(_aten.mul.Scalar, _aten.mul.Tensor),  # by a scale
}


def find_heads(module: fx.GraphModule) -> dict[nn.Module, int]:
    """Return the layers of queries, keys and values, with their numbers of heads, and let their views have any number.

    A view to (batch, length, heads, width) gets -1 for the heads, as does one back for the width of all heads.
    """
    found = dict[nn.Module, int]()
    for node in module.graph.nodes:
        if node.target is not _ATTENTION or node.op != "call_function":
            continue
        for value in node.args[:3]:
            width = value.meta["val"].shape[-1]
            layer = _find_layer(module, value, width)
            if layer is not None and layer.out_features % width == 0:
                found[layer] = layer.out_features // width
        _free_output(node)
    module.recompile()
    return found


def _find_layer(module: fx.GraphModule, value: fx.Node, width: int) -> nn.Linear | None:
    """Return the linear layer that computes a value; the number of heads in the views between becomes free."""
    while value.op == "call_function" and value.target in _MOVES:
        if value.target in _VIEWS:
            _free(value, before=width)
        value = value.args[0]
    layer = module.get_submodule(value.target) if value.op == "call_module" else None
    return layer if isinstance(layer, nn.Linear) else None


def _free(view: fx.Node, *, before: int) -> None:
    sizes = _list_sizes(view)
    if len(sizes) == 4 and sizes[-1] == before and -1 not in sizes and isinstance(sizes[-2], int):
        view.args = (view.args[0], [*sizes[:-2], -1, before])


def _list_sizes(view: fx.Node) -> list[Any]:
    """Return the sizes of a view; a free one for the batch becomes that of its input, since only one can be free."""
    value, sizes = view.args[0], list(view.args[1])
    if sizes[0] != -1 or str(value.meta["val"].shape[0]) != str(view.meta["val"].shape[0]):
        return sizes
    with view.graph.inserting_before(view):
        batch = view.graph.call_function(_aten.sym_size.int, (value, 0))
    batch.meta["val"] = value.meta["val"].shape[0]
    return [batch, *sizes[1:]]


def _free_output(attention: fx.Node) -> None:
    """Let the view that joins the heads again have any width."""
    node = attention
    while len(node.users) == 1:
        node = next(iter(node.users))
        if node.op != "call_function" or node.target not in _MOVES:
            return
        sizes = _list_sizes(node) if node.target in _VIEWS else []
        if len(sizes) == 4 and isinstance(sizes[1], int) and -1 not in sizes:
            node.args = (node.args[0], [sizes[0], -1, *sizes[2:]])
        elif len(sizes) == 3 and isinstance(sizes[-1], int) and -1 not in sizes:
            node.args = (node.args[0], [*sizes[:-1], -1])
