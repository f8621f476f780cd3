"""Write the progress of a run to a file, for the program that started it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kedro_hone.hooks.display import Display, Snapshot
from kedro_hone.report.progress_file import Progress, note_progress

_SECONDS: Final = 2.0
"""The shortest time between two writes."""


class NotingDisplay:
    """Another display that also writes the snapshot to the file every two seconds, with or without events."""

    def __init__(self, display: Display, take: Callable[[], Snapshot]) -> None:
        self._display, self._take, self._lock = display, take, threading.Lock()
        self._next = 0.0
        self.shows_events = display.shows_events
        self._closed = threading.Event()
        threading.Thread(target=self._tick, name="progress-file", daemon=True).start()

    def _tick(self) -> None:
        while not self._closed.wait(_SECONDS):
            self._note()

    def show(self) -> None:
        """Show the snapshot, and write it if it is time for that."""
        self._display.show()
        self._note()

    def _note(self) -> None:
        with self._lock:  # nodes run in threads
            now = time.monotonic()
            if now < self._next or self._closed.is_set():
                return
            self._next = now + _SECONDS
            with suppress(OSError):  # a full disk ends no run that only wants to report
                note_progress(describe_progress(self._take()))

    def close(self) -> None:
        """End the display."""
        self._closed.set()
        self._display.close()


def describe_progress(one: Snapshot) -> Progress:
    """Return the progress in a snapshot."""
    share = None if one.rest is None else min(1.0, max(0.0, one.share))
    return Progress(title=one.title, clock=one.clock, share=share, best=one.best)
