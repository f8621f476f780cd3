"""What the service keeps of ended runs, and for how long: their rows always, their logs and results for a while."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path
from typing import Final

from kedro_hone.events.journal import log
from kedro_hone.events.queue import Queue

DAY_SECONDS: Final = 86400.0


def remove_old(queue: Queue, folder: Path, *, before: float) -> int:
    """Remove the folders of jobs that ended before some second since 1970, and return how many there were.

    The rows stay, so that the same version is not run again because the first run is forgotten. The runs' own folders,
    with their evidence and reports, are the project's, and stay too.
    """
    old = [folder / str(number) for number in queue.list_ended(before)]
    there = [one for one in old if one.is_dir()]
    for one in there:
        shutil.rmtree(one)
    return len(there)


class Retention:
    """Forgets, in a thread, once a day, deliveries that nobody sends again, and removes the folders of old jobs.

    Args:
        queue: The queue.
        folder: Where the folders of jobs are.
        days: How long they are kept.
    """

    def __init__(self, queue: Queue, *, folder: Path, days: float) -> None:
        self._queue, self._folder, self._days = queue, folder, days
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="hone-retention")

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The thread, once it was started."""
        return (self._thread,) if self._thread.ident else ()

    def start(self) -> None:
        """Start; the first time is now."""
        self._thread.start()

    def stop(self) -> None:
        """End; return when it is ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                self._queue.forget_old()
                removed = remove_old(self._queue, self._folder, before=time.time() - self._days * DAY_SECONDS)
                if removed:
                    log("jobs-removed", count=removed)
            except Exception as error:  # noqa: BLE001 - it is tried again tomorrow, whatever kept it today
                log("jobs-not-removed", level=logging.ERROR, reason=f"{type(error).__name__}: {error}")
            self._stopping.wait(DAY_SECONDS)
