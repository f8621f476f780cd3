"""Clients of a model in a worker: threads that call it at once, and are timed together.

It imports only the standard library.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Clients:
    """Threads that call a model at once, each with a call of its own; they start with the first block."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self._calls = tuple(calls)
        self._threads = ThreadPoolExecutor(len(self._calls), thread_name_prefix="client")

    def time(self, calls: int) -> tuple[list[int], int]:
        """Make a block of calls, and return the time of each, and that of the block, in nanoseconds.

        A client that has finished a call makes the next one of the block, as the clients of a server do. The block
        begins with its first call, when all threads run, and ends with its last one.
        """
        numbers, begin = iter(range(calls)), threading.Barrier(len(self._calls))
        running = [self._threads.submit(_call, call, numbers, begin) for call in self._calls]
        spans = [span for one in running for span in one.result()]
        starts, ends = zip(*spans, strict=True)
        return [end - start for start, end in spans], max(ends) - min(starts)


def _call(call: Callable[[], Any], numbers: Iterator[int], begin: threading.Barrier) -> list[tuple[int, int]]:
    """Call until the numbers of the block, which all clients share, are used up; return the start and end of each."""
    clock, spans = time.perf_counter_ns, []
    begin.wait()
    for _ in numbers:
        start = clock()
        call()
        spans.append((start, clock()))
    return spans
