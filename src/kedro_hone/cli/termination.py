"""SIGTERM ends a command as Ctrl-C does: workers are ended, locks are released, and a line says so."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process was told to end; raised wherever it is, so that everything on the way out is closed."""


@contextmanager
def raise_on_termination() -> Iterator[None]:
    """Raise ``Terminated`` when SIGTERM comes, unless somebody handles it already."""
    main = threading.current_thread() is threading.main_thread()  # only that one may set a handler
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, _: FrameType | None) -> None:
    if multiprocessing.parent_process() is not None:
        # Forked from us by a parallel runner, whose pool would take the exception for a node's and go on. The guards
        # of this process's workers end them when it is gone, and the kernel releases its locks.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    signal.signal(number, signal.SIG_IGN)  # a second one would disturb the closing
    for child in multiprocessing.active_children():
        child.terminate()
    raise Terminated
