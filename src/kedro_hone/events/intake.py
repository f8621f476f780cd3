"""Accepting deliveries: many at once in one transaction, since each one waits for the disk."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import closing
from types import MappingProxyType
from typing import Final, NamedTuple

from kedro_hone.events.anchor import Anchor
from kedro_hone.events.job import Request
from kedro_hone.events.journal import log_each
from kedro_hone.events.queue import Queue

_BATCH: Final = 500
"""Deliveries in one transaction at most, so that none of them waits long."""

_GATHERED: Final = 0.01
"""Seconds in which more may come for the same commit, which costs as much for one as for many."""


_IDLE: Final = 1.0
"""Seconds without a delivery after which the queue's file is made whole, so that it can be copied."""


class _Waiting(NamedTuple):
    delivery: str
    requests: tuple[Request, ...]
    future: Future[int]
    note: Mapping[str, str]
    refused: str = ""
    """The event of a delivery that is only logged."""


class Intake:
    """Writes deliveries into the queue in a thread of its own; what waits for the disk is written together next time.

    This is the group commit of databases (DeWitt et al., Implementation techniques for main memory database systems,
    SIGMOD 1984).

    Args:
        jobs: The queue.
    """

    def __init__(self, jobs: Queue) -> None:
        self._jobs = jobs
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self.failing = False
        """Whether the last batch could not be written."""
        self._thread = threading.Thread(target=self._work, name="hone-intake", daemon=True)
        self._thread.start()

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The thread that writes."""
        return (self._thread,)

    def accept(
        self, requests: tuple[Request, ...], *, delivery: str = "", note: Mapping[str, str] = MappingProxyType({})
    ) -> Future[int]:
        """Return how many of the requests are new, once they are written; or why they could not be.

        With a note, a delivery that has new ones is logged, once it is acknowledged: a service that is killed in
        between has written it and not logged it. What is written together is logged together, since a line of its own
        costs as much as the rest of a delivery's handling.
        """
        future: Future[int] = Future()
        self._waiting.put(_Waiting(delivery, requests, future, note))
        return future

    def refuse(self, event: str, **note: str) -> None:
        """Log a delivery that leads to nothing, in the thread that may wait for whoever reads the log."""
        self._waiting.put(_Waiting("", (), Future(), note, refused=event))

    def close(self) -> None:
        """Write what waits, and end."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        with closing(Anchor(self._jobs.path)) as anchor:
            while (first := self._wait(anchor)) is not None:
                batch, ends = [first], False
                time.sleep(_GATHERED)
                while len(batch) < _BATCH and not self._waiting.empty():
                    one = self._waiting.get()
                    if one is None:
                        ends = True
                        break
                    batch.append(one)
                anchor.renew()
                if accepted := [one for one in batch if not one.refused]:
                    self._write(accepted)
                _log_refused(batch)
                if ends:
                    return

    def _wait(self, anchor: Anchor) -> _Waiting | None:
        """Return what comes next, however long that takes."""
        try:
            return self._waiting.get(timeout=_IDLE)
        except queue.Empty:
            anchor.close()
            return self._waiting.get()

    def _write(self, batch: list[_Waiting]) -> None:
        # A sender that has gone cancels its future, on which nothing may be set; what it sent is written all the same.
        present = [one for one in batch if one.future.set_running_or_notify_cancel()]
        try:
            counts = self._jobs.accept_all((one.delivery, one.requests) for one in batch)
        except Exception as error:  # noqa: BLE001 - each sender is told, and the thread goes on with the next batch
            self.failing = True
            for one in present:
                one.future.set_exception(error)
            return
        self.failing = False
        for one, count in zip(batch, counts, strict=True):
            if not one.future.cancelled():
                one.future.set_result(count)
        if notes := [one.note for one, count in zip(batch, counts, strict=True) if count and one.note]:
            log_each("delivery-accepted", notes)


def _log_refused(batch: list[_Waiting]) -> None:
    """Log what leads to nothing, also where nothing can be written."""
    for event in dict.fromkeys(one.refused for one in batch if one.refused):
        rows = [one.note for one in batch if one.refused == event]
        log_each(event, rows, level=logging.WARNING)
