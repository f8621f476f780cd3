"""The memory of a training: estimated before it begins, and explained if it is not there."""

from __future__ import annotations

import re

import torch
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

from .layers import call_module
from .rows import Data

MOST_BYTES = 6 << 30
"""The most bytes of a training. The guard ends a step that takes more than the toolchain's limit, which is larger."""
_TRIED = 2
"""Rows of the call that is measured."""
_WEIGHTS = 5
"""Copies of the weights: their own, the gradients, two moments of the optimizer, and those of the best epoch."""
_OUTPUTS = 3
"""Copies of the outputs in the loss: the source's, the difference, and its gradient."""
_SHORTAGE = re.compile(r"can't allocate memory|not enough memory|bad_alloc|Cannot allocate memory|Unable to allocate")


def check_memory(student: nn.Module, data: Data, batch: int) -> None:
    """Raise an ``UnsuitedError`` if a step of a training needs too much memory.

    What the gradients of a step need is measured in a call with a few rows.

    Args:
        student: The network, in evaluation mode, with parameters that need gradients.
        data: The rows.
        batch: The batch size of the options.
    """
    size = data.choose_size(batch)
    tried = data.fixed or min(_TRIED, size)
    weights = {one.untyped_storage().data_ptr(): one.nbytes for one in student.parameters()}
    saved = dict[int, int]()

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        outputs = call_module(student, data.take_inputs(torch.arange(tried)))
    activations = sum(count for place, count in saved.items() if place not in weights)
    row = (activations + _OUTPUTS * sum(one.nbytes for one in outputs)) / tried
    constant = _WEIGHTS * sum(weights.values())
    if (total := constant + row * size) <= MOST_BYTES:
        return
    shown = (
        f"a training step of {size} rows takes about {_show(total)} of memory, and at most {_show(MOST_BYTES)} is used"
    )
    fitting = int((MOST_BYTES - constant) / row)
    if fitting < 1 or data.fixed is not None:
        raise UnsuitedError(f"{shown}: export the network with a smaller batch or shorter rows")
    raise UnsuitedError(f"{shown}: set the option batch to {fitting} or less")


def is_shortage(error: BaseException) -> bool:
    """Return whether an error means that memory could not be allocated."""
    return isinstance(error, MemoryError) or _SHORTAGE.search(str(error)) is not None


def _show(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB"
