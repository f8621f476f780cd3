"""Calls that must end in time: the client of a registry may wait, or sleep, without a limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


class StalledError(Exception):
    """A call took longer than it may."""


def run_within(patience: float, call: Callable[[], T], *, progress: Callable[[], object] = lambda: None) -> T:
    """Return what a call returns, or raise what it raises.

    Args:
        patience: How many seconds ``progress`` may return the same.
        call: Called in a thread of its own, which goes on by itself when it takes too long.
        progress: Returns what changes while the call gets on.

    Raises:
        StalledError: It took too long.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    threading.Thread(target=work, name="hone-registry", daemon=True).start()
    last, since = progress(), time.monotonic()
    while not wait([future], min(1.0, patience)).done:
        now = progress()
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since >= patience:
            raise StalledError(f"It did not respond within {patience:g} seconds.")
    return future.result()
