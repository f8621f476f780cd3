"""Equal ranges of a layer's channels, so that one scale for all of them rounds none away.

What a layer multiplies and the next one divides changes no output where only a ReLU or a maximum is between them
(M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019).
"""

from __future__ import annotations

import torch
from torch import fx

_aten = torch.ops.aten
_ACTIVATIONS = {_aten.relu.default, _aten.relu_.default, _aten.dropout.default, _aten.dropout_.default}
_BETWEEN = {
    *_ACTIVATIONS,
    *(_aten.max_pool2d.default, _aten.avg_pool2d.default, _aten.adaptive_avg_pool2d.default),
}
"""Operators that return twice as much for an input that is twice as large, channel by channel."""
_FLATTENING = {_aten.flatten.using_ints, _aten.view.default, _aten.reshape.default}
_CONVOLUTION = _aten.conv2d.default
_LAYERS = {_aten.linear.default, _CONVOLUTION}
_SPREAD = 3.0
"""The largest number that a normalization returns, in standard deviations."""


def equalize(module: fx.GraphModule) -> int:
    """Equalize the channels between the layers of an exported program's module in place; return the number of pairs.

    Each channel is divided by a factor in the layer before it, and multiplied in the layer after it. The factor makes
    the channel's range in both the same.
    """
    count = 0
    for node in module.graph.nodes:
        if node.target not in _LAYERS or (node.target is _CONVOLUTION and len(node.args) > 6 and node.args[6] != 1):
            continue
        before, after = _find_producer(module, node), _read(module, node.args[1])
        if before is None or after is None or after.shape[1] % len(before[0]):
            continue
        _scale(before, after)
        count += 1
    return count


def _scale(before: list[torch.nn.Parameter], after: torch.nn.Parameter) -> None:
    weight, bias = before
    columns = after.detach().transpose(0, 1).reshape(len(weight), -1)  # of a flattened picture, several for a channel
    size = weight.detach().abs()
    made = (_SPREAD * size if size.dim() == 1 else size.flatten(1).amax(1)) + bias.detach().abs()
    read = columns.abs().amax(1)
    factors = torch.where((made > 0) & (read > 0), (made / read).sqrt(), torch.ones_like(made))
    with torch.no_grad():
        weight.div_(factors.view(-1, *[1] * (weight.dim() - 1)))
        bias.div_(factors)
        repeated = factors.repeat_interleave(after.shape[1] // len(factors))
        after.mul_(repeated.view(1, -1, *[1] * (after.dim() - 2)))


def _find_producer(module: fx.GraphModule, reader: fx.Node) -> list[torch.nn.Parameter] | None:
    """Return the weight and the bias of the layer that makes the channels that another reads; None if absent."""
    value, between = reader.args[0], list[fx.Node]()
    while value.op == "call_function" and len(value.users) == 1 and (value.target in _BETWEEN or _flattens(value)):
        between.append(value)
        value = value.args[0]
    if value.op != "call_function" or len(value.users) != 1 or len(value.args) < 3:
        return None
    if value.target not in _LAYERS | {_aten.batch_norm.default} or not _fits(value, between, reader):
        return None
    found = [_read(module, one) for one in value.args[1:3]]
    return None if any(one is None for one in found) else found


def _fits(maker: fx.Node, between: list[fx.Node], reader: fx.Node) -> bool:
    """Return whether the channels that a layer makes are those that another reads."""
    last = maker.meta["val"].dim() - 1
    made = last if maker.target is _aten.linear.default else 1
    flattened = any(map(_flattens, between))
    if made != 1 and any(one.target not in _ACTIVATIONS for one in between):  # it is no picture with channels first
        return False
    if reader.target is _CONVOLUTION:
        return made == 1 and last == 3 and not flattened
    return made == 1 and last == 3 if flattened else made == last


def _flattens(value: fx.Node) -> bool:
    """Return whether a value is a batch of pictures as rows, with one channel after the other."""
    if value.target not in _FLATTENING:
        return False
    old, new = value.args[0].meta["val"].shape, value.meta["val"].shape
    return len(old) == 4 and len(new) == 2 and str(old[0]) == str(new[0])


def _read(module: fx.GraphModule, value: object) -> torch.nn.Parameter | None:
    """Return the parameter that an argument names, if nothing else uses it or its memory."""
    if not isinstance(value, fx.Node) or value.op != "get_attr" or len(value.users) != 1:
        return None
    same = [node for node in module.graph.nodes if node.op == "get_attr" and node.target == value.target]
    found = module.get_parameter(value.target) if len(same) == 1 else None
    if found is None or not found.dtype.is_floating_point:
        return None
    places = [one.untyped_storage().data_ptr() for one in (*module.parameters(), *module.buffers())]
    return found if places.count(found.untyped_storage().data_ptr()) == 1 else None
