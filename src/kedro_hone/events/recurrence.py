"""The recurring work of the service: sweeps, and the removal of old entries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Recurrence(threading.Thread):
    """Calls functions in one thread, each of them again after the pause that it returned, until it is stopped.

    Args:
        calls: The functions, which raise nothing, and return the seconds until their next turn.
    """

    def __init__(self, *calls: Callable[[], float]) -> None:
        super().__init__(name="hone-schedule")
        self._turns = dict.fromkeys(calls, 0.0)  # by the monotonic clock
        self._stopping = threading.Event()

    def run(self) -> None:
        """Call functions that are due, until it is stopped."""
        while not self._stopping.is_set():
            for call, turn in self._turns.items():
                if turn <= time.monotonic() and not self._stopping.is_set():
                    self._turns[call] = call() + time.monotonic()
            self._stopping.wait(min(self._turns.values()) - time.monotonic())

    def stop(self) -> None:
        """Stop; return when the thread has ended."""
        self._stopping.set()
        if self.is_alive():
            self.join()
