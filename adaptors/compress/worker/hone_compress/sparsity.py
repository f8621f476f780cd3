"""Unstructured sparsity: set the smallest weights to zero step by step, while the others are trained.

The share of zeros rises along a cubic curve (M. Zhu and S. Gupta, "To prune, or not to prune: exploring the efficacy of
pruning for model compression", 2017).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import fx, nn

from hone_runtime.worker.refusal import UnsuitedError

from .compression import compress
from .distillation import SETTLED
from .layers import list_layers
from .source import Source

Json = dict[str, Any]

_UPDATES = 50


def sparsify(job: Json) -> Json:
    """Write a program with masked weights into the job's output, and return notes."""
    options = job["options"]
    masks = Masks(pattern=options["pattern"], sparsity=options["sparsity"])

    def cover(source: Source) -> fx.GraphModule:
        changed = copy.deepcopy(source.module)
        masks.cover(changed)
        return changed

    notes = compress(job, cover, shrinks=False, after_step=masks.apply)
    found, due = masks.measure(), options["sparsity"]
    if found < due - 0.05:
        raise UnsuitedError(f"training ended at a sparsity of {found:.2f}, before {due:.2f}", slug="budget")
    notes["metadata"]["training"]["sparsity"] = round(found, 4)
    return notes


class Masks:
    """The masks of a module's layers, applied after each step of the optimizer."""

    def __init__(self, *, pattern: str, sparsity: float) -> None:
        self._pattern, self._sparsity, self._updated = pattern, sparsity, -1
        self._layers: list[nn.Module] = []
        self._masks: list[torch.Tensor] = []

    def cover(self, module: fx.GraphModule) -> None:
        """Find the layers of a module that are masked; raise an ``UnsuitedError`` if there are none."""
        self._layers = [one for one in list_layers(module).values() if fits(one, self._pattern)]
        if not self._layers:
            raise UnsuitedError("it has no layer whose inputs fit the pattern")

    def apply(self, share: float) -> None:
        """Set masked weights to zero; ``share`` of the training is done."""
        number = int(min(share, SETTLED) * _UPDATES)
        if number > self._updated:
            self._updated = number
            done = min(1.0, share / SETTLED)
            sparsity = self._sparsity * (1 - (1 - done) ** 3)
            self._masks = [choose_mask(one.weight, self._pattern, sparsity) for one in self._layers]
        with torch.no_grad():
            for layer, mask in zip(self._layers, self._masks, strict=True):
                layer.weight.mul_(mask)

    def measure(self) -> float:
        """Return the share of zeros among all weights with a mask."""
        zeros = sum(int((one.weight == 0).sum()) for one in self._layers)
        return float(zeros / sum(one.weight.numel() for one in self._layers))


def fits(layer: nn.Module, pattern: str) -> bool:
    """Return whether a layer's inputs can be divided into the groups of a pattern."""
    return pattern == "unstructured" or layer.weight.shape[1] % 4 == 0


def choose_mask(weight: torch.Tensor, pattern: str, sparsity: float) -> torch.Tensor:
    """Return which weights stay: a boolean tensor of the weight's shape.

    Args:
        weight: (outputs, inputs, …).
        pattern: ``unstructured``; ``block4``: four neighbours along the inputs together; ``2:4``: two of each four.
        sparsity: The share of zeros; for ``2:4`` at most a half.
    """
    size = weight.detach().abs()
    if pattern == "unstructured":
        return _keep_largest(size, sparsity)
    groups = size.movedim(1, -1).unflatten(-1, (-1, 4))
    if pattern == "block4":
        kept = _keep_largest(groups.sum(-1), sparsity)[..., None].expand(groups.shape)
    else:
        order = groups.argsort(-1, descending=True).argsort(-1)
        kept = order < 4 - round(4 * min(sparsity, 0.5))
    return kept.flatten(-2).movedim(-1, 1)


def _keep_largest(size: torch.Tensor, sparsity: float) -> torch.Tensor:
    count = round(sparsity * size.numel())
    if count == 0:
        return torch.ones_like(size, dtype=torch.bool)
    mask = torch.ones(size.numel(), dtype=torch.bool)
    mask[size.flatten().argsort()[:count]] = False
    return mask.view(size.shape)
