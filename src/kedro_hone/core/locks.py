"""Locks between processes: files locked with ``flock``, which the kernel releases when the holder dies."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import re
import stat
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
_LOG_SECONDS: Final = 30.0
_OPENING: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_START: Final = b'{"pid": '
"""How each description of a holder begins."""


@contextmanager
def hold_lock(
    path: Path,
    *,
    purpose: str,
    waits: bool = True,
    limit: float = math.inf,
    stopped: Callable[[], bool] | None = None,
) -> Iterator[float]:
    """Acquire an exclusive lock between processes; wait for it if needed, and log its holder every half minute.

    The same process must not take a lock twice in one thread: it would wait for itself. The file is made with its
    parents if missing. Only its holder may remove it: who waited for a removed file makes another one, since otherwise
    two processes could acquire "the" lock. It contains the last holder and the purpose; other content is left as it is.
    The seconds spent waiting are yielded. If ``stopped`` becomes true, the wait ends.

    Raises:
        BlockingIOError: Another process has the lock, and waiting was not requested.
        TimeoutError: Another process had the lock for ``limit`` seconds.
        KeyboardInterrupt: The user ended the wait.
        OSError: The file cannot be made, or is a link or another thing than a regular file.
    """
    started = time.monotonic()
    handle = _acquire(path, waits=waits, limit=limit, stopped=stopped)
    try:
        waited = time.monotonic() - started
        since = datetime.now(UTC).isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "purpose": purpose, "program": Path(sys.argv[0]).name, "since": since}
        if os.pread(handle, len(_START), 0).strip(b"\0") in {b"", _START}:  # zeros: the machine crashed meanwhile
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(holder).encode(), 0)
        yield waited
    finally:
        os.close(handle)  # releases the lock as well


def _acquire(path: Path, *, waits: bool, limit: float, stopped: Callable[[], bool] | None) -> int:
    """Return the descriptor of a locked file that is still at its path."""
    started = time.monotonic()
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, _OPENING, 0o666)
        try:
            _check_regular(handle, path)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waits:
                    raise
                _wait(handle, path, end=started + limit, stopped=stopped)
                _LOG.info("Waited %.0f seconds for %s.", time.monotonic() - started, path.stem)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.lstat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _check_regular(handle: int, path: Path) -> None:
    """Raise an OSError if an open file is no regular one."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))


def _wait(handle: int, path: Path, *, end: float, stopped: Callable[[], bool] | None) -> None:
    """Acquire a lock as soon as it is free; check twice a second, which does not disturb measurements.

    A wait in the kernel would resume after Ctrl-C if a signal handler of ours only records the signal and returns.
    """
    requested = stopped is not None and stopped()  # an earlier request to stop applies to this wait too
    started, logged = time.monotonic(), -math.inf
    while True:
        waited = time.monotonic() - started
        if waited - logged >= _LOG_SECONDS:
            logged, since = waited, f" after {waited:.0f} s" if waited >= 1 else ""
            _LOG.warning("Waiting for %s%s: held by %s.", path.stem, since, read_holder(path) or "another process")
        if stopped is not None and not requested and stopped():
            raise KeyboardInterrupt(f"while waiting for {path.stem}")
        if time.monotonic() >= end:
            raise TimeoutError(errno.ETIMEDOUT, f"Held by {read_holder(path) or 'another process'}", str(path))
        time.sleep(_LOOK_SECONDS)
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return


@contextmanager
def hold_devices(
    root: Path, devices: Iterable[str], *, purpose: str = "measuring", stopped: Callable[[], bool] | None = None
) -> Iterator[float]:
    """Lock devices (``cpu``, ``cuda:0`` …) exclusively, so that two runs never measure on one at the same time.

    The locks are acquired in the order of the devices' names, each once, so two processes that need the same devices
    never wait for each other. Every run on this machine must use the same ``root``, the folder of the locks. Yields and
    raises as ``hold_lock``.
    """
    with ExitStack() as stack:
        waited = 0.0
        for device in sorted(set(devices)):
            name = re.sub(r"[^A-Za-z0-9_-]", "-", device)
            lock = hold_lock(root / f"device-{name}.lock", purpose=f"{purpose} on {device}", stopped=stopped)
            waited += stack.enter_context(lock)
        yield waited


def read_holder(path: Path) -> str | None:
    """Return the current or last holder of a lock as a phrase for messages; None if unknown."""
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} ({holder['purpose']}) since {holder['since']}"
    except (OSError, ValueError, TypeError, KeyError):
        # Only for a message: the holder may be writing its line right now.
        return None
