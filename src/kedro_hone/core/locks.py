"""Locks between processes: files held with ``flock``, which the kernel releases when the holder dies."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from kedro_hone.core.text import open_logger

_LOG = open_logger(__name__)


@contextmanager
def hold_lock(path: Path, *, purpose: str, waits: bool = True) -> Iterator[float]:
    """Hold a lock that one process at a time can hold; wait for it if need be, and log who holds it.

    The same process must not take a lock twice in one thread: it would wait for itself. The file, made with its parents
    when missing, stays behind (removing it would let two processes hold "the" lock), and says who held it last and for
    which purpose. Yielded are the seconds that were spent waiting.

    Raises:
        BlockingIOError: Another process holds it, and it is not to be waited for.
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
            _LOG.warning("Waiting for %s: held by %s.", path.stem, read_holder(path) or "another process")
            # Sleeping in the kernel, not polling: who waits for a device must not disturb the one that measures on it.
            fcntl.flock(handle, fcntl.LOCK_EX)
            _LOG.info("Waited %.0f seconds for %s.", time.monotonic() - started, path.stem)
        waited = time.monotonic() - started
        since = datetime.now(UTC).isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "purpose": purpose, "program": Path(sys.argv[0]).name, "since": since}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(holder).encode(), 0)
        yield waited
    finally:
        os.close(handle)  # releases the lock as well


@contextmanager
def hold_devices(root: Path, devices: Iterable[str], *, purpose: str = "measuring") -> Iterator[float]:
    """Hold devices (``cpu``, ``cuda:0`` …) alone, so that two runs never measure on one at the same time.

    The locks are taken in the order of the devices' names, each once: two processes that want the same devices can
    therefore never wait for each other. Every run on this machine must name the same ``root``, the folder of the locks.
    Yields and raises as ``hold_lock``.
    """
    with ExitStack() as stack:
        waited = 0.0
        for device in sorted(set(devices)):
            name = re.sub(r"[^A-Za-z0-9_-]", "-", device)
            waited += stack.enter_context(hold_lock(root / f"device-{name}.lock", purpose=f"{purpose} on {device}"))
        yield waited


def read_holder(path: Path) -> str | None:
    """Return who holds a lock, or held it last, as a phrase for a person; None when nobody is known."""
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} ({holder['purpose']}) since {holder['since']}"
    except (OSError, ValueError, TypeError, KeyError):
        # Only for a message: the holder may be writing its line right now.
        return None
