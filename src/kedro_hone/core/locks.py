"""Locks between processes: files held with ``flock``, which the kernel releases when the holder dies."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hone_runtime.text import open_logger

_LOG = open_logger(__name__)
_LOOK_SECONDS: Final = 0.5
_TOLD_SECONDS: Final = 30.0


@contextmanager
def hold_lock(
    path: Path, *, purpose: str, waits: bool = True, stopped: Callable[[], bool] | None = None
) -> Iterator[float]:
    """Hold a lock that one process at a time can hold; wait for it if need be, and log each half minute who holds it.

    The same process must not take a lock twice in one thread: it would wait for itself. The file, made with its parents
    when missing, stays behind (removing it would let two processes hold "the" lock), and says who held it last and for
    which purpose. Yielded are the seconds that were spent waiting. Where ``stopped`` comes to be true, the wait ends.

    Raises:
        BlockingIOError: Another process holds it, and it is not to be waited for.
        KeyboardInterrupt: A person ended the wait.
        OSError: The file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        started = time.monotonic()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waits:
                raise
            _wait(handle, path, stopped=stopped)
            _LOG.info("Waited %.0f seconds for %s.", time.monotonic() - started, path.stem)
        waited = time.monotonic() - started
        since = datetime.now(UTC).isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "purpose": purpose, "program": Path(sys.argv[0]).name, "since": since}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(holder).encode(), 0)
        yield waited
    finally:
        os.close(handle)  # releases the lock as well


def _wait(handle: int, path: Path, *, stopped: Callable[[], bool] | None) -> None:
    """Take a lock as soon as it is free; look twice a second, which disturbs nobody who measures.

    A wait in the kernel would be taken up again after Ctrl-C, where a handler of ours notes that and returns.
    """
    asked = stopped is not None and stopped()  # an earlier request to stop holds for this wait too
    started, told = time.monotonic(), -math.inf
    while True:
        waited = time.monotonic() - started
        if waited - told >= _TOLD_SECONDS:
            told, since = waited, f" after {waited:.0f} s" if waited >= 1 else ""
            _LOG.warning("Waiting for %s%s: held by %s.", path.stem, since, read_holder(path) or "another process")
        if stopped is not None and not asked and stopped():
            raise KeyboardInterrupt(f"while waiting for {path.stem}")
        time.sleep(_LOOK_SECONDS)
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return


@contextmanager
def hold_devices(
    root: Path, devices: Iterable[str], *, purpose: str = "measuring", stopped: Callable[[], bool] | None = None
) -> Iterator[float]:
    """Hold devices (``cpu``, ``cuda:0`` …) alone, so that two runs never measure on one at the same time.

    The locks are taken in the order of the devices' names, each once: two processes that want the same devices can
    therefore never wait for each other. Every run on this machine must name the same ``root``, the folder of the locks.
    Yields and raises as ``hold_lock``.
    """
    with ExitStack() as stack:
        waited = 0.0
        for device in sorted(set(devices)):
            name = re.sub(r"[^A-Za-z0-9_-]", "-", device)
            lock = hold_lock(root / f"device-{name}.lock", purpose=f"{purpose} on {device}", stopped=stopped)
            waited += stack.enter_context(lock)
        yield waited


def read_holder(path: Path) -> str | None:
    """Return who holds a lock, or held it last, as a phrase for a person; None when nobody is known."""
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} ({holder['purpose']}) since {holder['since']}"
    except (OSError, ValueError, TypeError, KeyError):
        # Only for a message: the holder may be writing its line right now.
        return None
