"""Layer replacement: activations that int8 kernels cannot fuse become some that they can."""

from __future__ import annotations

import copy

import torch
from torch import fx

from hone_runtime.worker.refusal import UnsuitedError

from .source import Source

_aten = torch.ops.aten

REPLACED = {_aten.silu.default, _aten.gelu.default}
BY = {"hard-swish": _aten.hardswish.default, "relu": _aten.relu.default}


def replace_layers(source: Source) -> fx.GraphModule:
    """Return a copy of a source's module with other activations.

    Kernels for int8 fuse a ReLU into the layer before it, and compute SiLU and GELU in fp32 between two conversions.
    """
    changed = copy.deepcopy(source.module)
    found = [node for node in changed.graph.nodes if node.op == "call_function" and node.target in REPLACED]
    if not found:
        raise UnsuitedError("it has no SiLU or GELU")
    for node in found:
        node.target, node.args, node.kwargs = BY[source.options["by"]], node.args[:1], {}
    changed.recompile()
    return changed
