"""Structured pruning: remove whole channels, heads and hidden widths, so that the layers become smaller."""

from __future__ import annotations

import copy
import warnings

import torch
import torch_pruning
from torch import fx

from hone_runtime.worker.refusal import UnsuitedError

from .attention import find_heads
from .layers import call_module, find_last, list_layers
from .source import Source


def prune_channels(source: Source) -> fx.GraphModule:
    """Return a copy of a source's module with fewer channels.

    The channels of layers that are added or concatenated are removed together, and those with the smallest norm over
    all these layers first (G. Fang et al., "DepGraph: Towards Any Structural Pruning", CVPR 2023). Widths are rounded
    to multiples of ``round_to``, since kernels compute whole vectors. Of attention, whole heads are removed. Layers
    with the model's outputs stay as they are.
    """
    ratio, step, examples = source.options["ratio"], source.options["round_to"], source.examples
    last = find_last(source.module)
    if not list_layers(source.module).keys() - last:
        raise UnsuitedError("it has no layer whose width does not decide that of an output")
    pruned = copy.deepcopy(source.module)
    heads = find_heads(pruned)
    wanted = _list_shapes(source.module, examples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parameters outside layers, which it finds by itself
        pruner = torch_pruning.pruner.BasePruner(
            pruned,
            examples,
            importance=torch_pruning.importance.GroupMagnitudeImportance(p=2),
            pruning_ratio=ratio,
            ignored_layers=[pruned.get_submodule(name) for name in last],
            round_to=step,
            num_heads=heads,
            prune_num_heads=bool(heads),
            prune_head_dims=False,
            head_pruning_ratio=ratio,
        )
        pruner.step()
    before = {name: layer.weight.shape for name, layer in list_layers(source.module).items()}
    if all(layer.weight.shape == before[name] for name, layer in list_layers(pruned).items()):
        raise UnsuitedError(f"no layer is wide enough to lose {ratio:.0%} of its channels in steps of {step}")
    try:
        found = _list_shapes(pruned, examples)
    except RuntimeError as error:
        why = str(error).splitlines()[0]
        raise UnsuitedError(f"its graph computes with the widths that would be pruned: {why}") from error
    if found != wanted:
        raise UnsuitedError(f"its outputs would have the shapes {found} instead of {wanted}")
    return pruned


def _list_shapes(module: fx.GraphModule, examples: tuple[torch.Tensor, ...]) -> list[tuple[int, ...]]:
    with torch.no_grad():
        return [tuple(one.shape) for one in call_module(module, examples)]
