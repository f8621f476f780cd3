"""Low rank: replace a layer by two thinner ones, whose product approximates its weights."""

from __future__ import annotations

import copy

import torch
from torch import fx, nn

from hone_runtime.worker.refusal import UnsuitedError

from .layers import list_layers
from .source import Source


def factorize(source: Source) -> fx.GraphModule:
    """Return a copy of a source's module whose wide layers are factorized.

    A linear layer becomes two, by the singular values of its weights. A convolution with a square kernel becomes one
    along the height and one along the width (M. Jaderberg et al., "Speeding up Convolutional Neural Networks with Low
    Rank Expansions", BMVC 2014). A layer where this saves no multiplications stays as it is.
    """
    share, step = source.options["rank"], source.options["round_to"]
    changed = copy.deepcopy(source.module)
    reasons = []
    for name, layer in list_layers(changed).items():
        full = find_full_rank(layer)
        rank = max(step, round(share * full / step) * step)
        if (reason := find_reason(layer, rank)) is not None:
            reasons.append(f"{name}: {reason}")
            continue
        changed.set_submodule(name, factorize_layer(layer, rank))
    if not any(isinstance(one, Factorized) for one in changed.modules()):
        raise UnsuitedError(f"no layer becomes cheaper: {'; '.join(reasons[:3])}")
    return changed


class Factorized(nn.Sequential):  # type: ignore[misc]  # torch has no types here
    """Two layers in the place of one."""


def find_full_rank(layer: nn.Module) -> int:
    """Return the rank of a layer's weights as the matrix that is factorized."""
    weight = layer.weight
    if weight.dim() == 2:
        return int(min(weight.shape))
    return int(min(weight.shape[0] * weight.shape[-1], weight.shape[1] * weight.shape[2]))


def find_reason(layer: nn.Module, rank: int) -> str | None:
    """Return why a layer is not factorized; None if that saves multiplications."""
    weight = layer.weight
    if isinstance(layer, nn.Conv1d) or (isinstance(layer, nn.Conv2d) and (layer.groups != 1 or weight.shape[2] == 1)):
        return "only linear layers and convolutions with a kernel of several rows, in one group, are factorized"
    if rank >= find_full_rank(layer):
        return f"the rank {rank} is not below its own, {find_full_rank(layer)}"
    if weight.dim() == 2:
        after, before = rank * sum(weight.shape), weight.numel()
    else:
        outputs, inputs, height, width = weight.shape
        after, before = rank * (inputs * height + outputs * width), weight.numel()
    return (
        None
        if after < before
        else f"at rank {rank} it takes {after:,} multiplications for each place, and {before:,} before"
    )


def factorize_layer(layer: nn.Module, rank: int) -> Factorized:
    """Return two layers that approximate one with a rank, in the sense of the smallest squared error of its weights."""
    weight = layer.weight.detach()
    wide = weight.to(torch.promote_types(weight.dtype, torch.float32))  # there is no SVD of half precision
    kind = {"dtype": weight.dtype}
    if isinstance(layer, nn.Linear):
        left, right = _split(wide, rank)
        first = nn.Linear(layer.in_features, rank, bias=False, **kind)
        second = nn.Linear(rank, layer.out_features, bias=layer.bias is not None, **kind)
        weights = right, left
    else:
        outputs, inputs, height, width = weight.shape
        # Rows of the matrix: input and place along the height; columns: output and place along the width.
        left, right = _split(wide.permute(1, 2, 0, 3).reshape(inputs * height, outputs * width), rank)
        steps, pads, gaps = layer.stride, layer.padding, layer.dilation
        first = nn.Conv2d(inputs, rank, (height, 1), (steps[0], 1), (pads[0], 0), (gaps[0], 1), bias=False, **kind)
        second = nn.Conv2d(rank, outputs, (1, width), (1, steps[1]), (0, pads[1]), (1, gaps[1]), **kind)
        second.bias = None if layer.bias is None else second.bias
        weights = left.T.reshape(rank, inputs, height, 1), right.reshape(rank, outputs, 1, width).transpose(0, 1)
    with torch.no_grad():
        for one, value in zip((first, second), weights, strict=True):
            one.weight.copy_(value)
        if layer.bias is not None:
            second.bias.copy_(layer.bias)
    return Factorized(first, second)


def _split(matrix: torch.Tensor, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two factors of the best approximation of a matrix with a rank: (rows, rank) and (rank, columns)."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    root = values[:rank].sqrt()
    return left[:, :rank] * root, root[:, None] * right[:rank]
