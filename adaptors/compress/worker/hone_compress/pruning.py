"""Structured pruning: remove whole channels, heads and hidden widths, so that the layers become smaller."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterable

import torch
import torch_pruning
from torch import fx

from hone_runtime.worker.refusal import UnsuitedError

from .attention import find_heads
from .layers import call_module, find_last, list_layers
from .source import Source


class _Pruner(torch_pruning.pruner.BasePruner):  # type: ignore[misc]  # mypy skips torch_pruning
    """A pruner that leaves at least one step of a layer's channels: with none, it would leave the layer whole."""

    def _round_to(self, n_pruned: int, current_channels: int, round_to: int) -> int:
        left = max(current_channels - n_pruned, round_to)
        return max(current_channels - left // round_to * round_to, 0)


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
    shapes = _list_shapes(source.module, examples)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parameters outside layers, which it finds by itself
            _open_pruner(pruned, source, kept=last).step()
    except (LookupError, RuntimeError, TypeError, ValueError, AttributeError, AssertionError) as error:
        why = "torch-pruning cannot find which channels belong together, as where layers take other axes in turn"
        raise UnsuitedError(f"{why} ({type(error).__name__}: {error})") from error
    before = {name: layer.weight.shape for name, layer in list_layers(source.module).items()}
    if all(layer.weight.shape == before[name] for name, layer in list_layers(pruned).items()):
        raise UnsuitedError(f"no layer is wide enough to lose {ratio:.0%} of its channels in steps of {step}")
    try:
        found = _list_shapes(pruned, examples)
    except RuntimeError as error:
        place, why = _find_failing(pruned, examples), str(error).splitlines()[0]
        raise UnsuitedError(f"its graph computes with the widths that would be pruned, in {place}: {why}") from error
    if found != shapes:
        raise UnsuitedError(f"its outputs would have the shapes {found} instead of {shapes}")
    return pruned


def _open_pruner(module: fx.GraphModule, source: Source, *, kept: Iterable[str]) -> _Pruner:
    """Return a pruner of a module, of which the layers ``kept`` stay as they are."""
    ratio, heads = source.options["ratio"], find_heads(module)
    return _Pruner(
        module,
        source.examples,
        importance=torch_pruning.importance.GroupMagnitudeImportance(p=2),
        pruning_ratio=ratio,
        ignored_layers=[module.get_submodule(name) for name in kept],
        round_to=source.options["round_to"],
        num_heads=heads,
        prune_num_heads=bool(heads),
        prune_head_dims=False,
        head_pruning_ratio=ratio,
        # Rounded up, at most ceil(n - 1.5) = n - 1 of n heads are removed.
        head_pruning_ratio_dict={layer: min(ratio, max(0.0, 1 - 1.5 / heads[layer])) for layer in heads},
    )


def _find_failing(module: fx.GraphModule, examples: tuple[torch.Tensor, ...]) -> str:
    """Return the node of a module that raises an error, with its operator."""
    interpreter = fx.Interpreter(module, garbage_collect_values=False)
    with torch.no_grad(), contextlib.suppress(RuntimeError):
        interpreter.run(*examples)
    failing = next((one for one in module.graph.nodes if one.op != "output" and one not in interpreter.env), None)
    return "its outputs" if failing is None else f"{failing.name} ({failing.target})"


def _list_shapes(module: fx.GraphModule, examples: tuple[torch.Tensor, ...]) -> list[tuple[int, ...]]:
    with torch.no_grad():
        return [tuple(one.shape) for one in call_module(module, examples)]
