"""The number of threads of a session's calls. PyTorch has one for each thread that calls it."""

from __future__ import annotations

import torch


def set_threads(count: int) -> None:
    """Set PyTorch's number of threads in this thread, unless it has this number.

    ``torch.set_num_threads`` takes effect in the thread that calls it. In another one, such as a server's, a product of
    matrices uses all cores until the first parallel loop, or until the number is read as it is here
    (https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/ParallelOpenMP.cpp).
    """
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
