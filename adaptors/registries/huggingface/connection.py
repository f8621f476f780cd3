"""A connection to the Hub: every call ends within a bound, is tried again where that helps, and explains its errors.

``huggingface_hub`` reads ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HUB_CACHE``, ``HF_HUB_OFFLINE`` and others itself; its
settings are not changed here. It waits for most responses without a limit, and sleeps as long as a ``Retry-After``
asks for, so that its calls are made in a thread that is not waited for any longer than is sensible.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from huggingface_hub import HfApi, constants

from kedro_hone import __version__
from kedro_hone.adaptors.registries.huggingface import explaining
from kedro_hone.adaptors.registries.huggingface.explaining import Place, StalledError
from kedro_hone.adaptors.registries.huggingface.guarding import Call, guard_session
from kedro_hone.core.errors import HoneError

T = TypeVar("T")

PATIENCE_SECONDS: Final = 45.0
"""How long the Hub may take to respond to one call, all tries of it together."""
STALL_SECONDS: Final = 120.0
"""How long a download may stand still."""
SLOWEST_UPLOAD: Final = 125_000
"""Bytes a second that an upload must reach on average: 1 Mbit/s."""
LONGEST_WAIT: Final = 30.0
"""The longest ``Retry-After``, in seconds, that is waited for; a longer one is an error that says it."""
_TRIES: Final = 3
_BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})
_BROKEN: Final = frozenset({"ConnectError", "ReadError", "RemoteProtocolError"})
"""The names of errors of a connection, in whichever HTTP client huggingface_hub uses."""


class Connection:
    """The Hub as the environment names it, with the user's token and cache."""

    def __init__(self) -> None:
        self.api = HfApi(endpoint=constants.ENDPOINT, library_name="kedro-hone", library_version=__version__)

    @property
    def endpoint(self) -> str:
        """The Hub's address, without a slash at the end."""
        return str(self.api.endpoint)

    @property
    def offline(self) -> bool:
        """Whether ``HF_HUB_OFFLINE`` forbids requests."""
        return bool(constants.is_offline_mode())

    def find_folder(self, name: str) -> Path:
        """Return the folder of a repository in huggingface_hub's cache, which may not exist."""
        return Path(constants.HF_HUB_CACHE).expanduser() / f"models--{name.replace('/', '--')}"

    def ask(self, call: Callable[[], T], place: Place, *, tries: int = _TRIES, patience: float | None = None) -> T:
        """Return what a call of huggingface_hub returns, tried again where the Hub is busy, within a bound.

        Raises:
            HoneError: What went wrong, as ``explain`` says it.
        """
        end = time.monotonic() + (PATIENCE_SECONDS if patience is None else patience)
        while True:
            tries -= 1
            try:
                return run_bounded(call, patience=max(end - time.monotonic(), 0.1))
            except Exception as error:
                pause = _find_pause(error) if tries else None
                if pause is None or time.monotonic() + pause > end:
                    raise self.explain(error, place) from error
                time.sleep(pause)

    def explain(self, error: BaseException, place: Place) -> HoneError:
        """Return the error for people of what huggingface_hub raised."""
        return explaining.explain(error, place, endpoint=self.endpoint)


def run_bounded(call: Callable[[], T], *, patience: float, progress: Callable[[], object] = lambda: None) -> T:
    """Return what a call returns, or raise what it raises; it may stand still for so many seconds.

    Args:
        call: Called in a thread of its own, which ends at its next response when it takes too long.
        patience: How long ``progress`` may return the same.
        progress: Something that changes while the call gets on.

    Raises:
        StalledError: It took too long.
    """
    future: Future[Any] = Future()

    def work() -> None:
        try:
            guard_session()
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    thread = Call(work)
    with _listen(thread) as heard:
        thread.start()
        last, since = progress(), time.monotonic()
        while not wait([future], min(1.0, patience)).done:
            now = progress()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since >= patience:
                thread.left = True
                raise StalledError(patience, " ".join(heard))
    result: T = future.result()
    return result


@contextmanager
def _listen(thread: threading.Thread) -> Iterator[deque[str]]:
    """Yield the last warnings of huggingface_hub in a thread: only there it says why it tries again, and when."""
    heard: deque[str] = deque(maxlen=2)

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == thread.ident:
                heard.append(record.getMessage())

    logger, listener = logging.getLogger("huggingface_hub"), Listener(logging.WARNING)
    logger.addHandler(listener)
    try:
        yield heard
    finally:
        logger.removeHandler(listener)


def _find_pause(error: BaseException) -> float | None:
    """Return how many seconds to wait before another try; None where that does not help, or takes too long."""
    status = explaining.read_status(error)
    if status is None:
        return 1.0 if type(error).__name__ in _BROKEN else None
    asked = explaining.read_wait(error)
    return None if status not in _BUSY or (asked or 0) > LONGEST_WAIT else (1.0 if asked is None else asked)
