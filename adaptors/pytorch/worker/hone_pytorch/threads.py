"""The number of threads of a session's calls. PyTorch has one for each thread that calls it."""

from __future__ import annotations

import threading

import torch


class CallersThreads(threading.local):
    """Sets PyTorch's number of threads in each thread that calls a session.

    ``torch.set_num_threads`` takes effect in the thread that calls it. In another one, such as a server's, a product of
    matrices uses all cores until the first parallel loop of PyTorch itself
    (https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/ParallelOpenMP.cpp).

    Attributes:
        count: The number of threads; to read it sets it in a thread that has not read it before.
    """

    def __init__(self, count: int) -> None:
        """Set the number in this thread; Python calls this again in each other thread."""
        torch.get_num_threads()  # otherwise the thread's first parallel loop sets that of the last session
        torch.set_num_threads(count)
        self.count = count
