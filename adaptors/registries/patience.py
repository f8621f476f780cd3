"""Calls with a time limit: the client of a registry may wait, or sleep, indefinitely."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


class StalledError(Exception):
    """A call exceeded its time limit."""


def run_within(patience: float, call: Callable[[], T], *, progress: Callable[[], object] = lambda: None) -> T:
    """Return a call's result, or raise its exception.

    Args:
        patience: For how many seconds ``progress`` may return the same value.
        call: Called in a separate thread, which continues by itself after the time limit.
        progress: Returns a value that changes while the call progresses.

    Raises:
        StalledError: The call exceeded its time limit.
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
