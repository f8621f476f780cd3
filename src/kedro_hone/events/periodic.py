"""Threads of the service that do the same work again and again."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Periodic(threading.Thread, ABC):
    """Does its work at once when it is started, and then again after each pause, until it is stopped.

    Attributes:
        stopping: Set once it is to stop.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.stopping = threading.Event()

    @abstractmethod
    def work(self) -> float:
        """Do the work, and return the seconds until the next time; it must raise nothing."""

    def run(self) -> None:
        """Work until it is stopped."""
        pause = 0.0
        while not self.stopping.wait(pause):
            pause = self.work()

    def stop(self) -> None:
        """Stop; return when the thread has ended."""
        self.stopping.set()
        if self.is_alive():
            self.join()
