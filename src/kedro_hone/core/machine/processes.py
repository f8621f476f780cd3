"""Processes by their number or name: what the kernel says of them, and whether one is still alive."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
STALE_AFTER_SECONDS: Final = 3600.0
"""What a process of another machine makes counts as abandoned when it did not change for this long."""


def read_stat(pid: int, *, proc: Path = PROC) -> list[str]:
    """Return what ``/proc/<pid>/stat`` says after the name, the state first; nothing when there is no such process."""
    try:
        # The name in parentheses may hold blanks and parentheses.
        return (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def read_start(pid: int) -> int:
    """Return when a process started, in clock ticks since the boot; with its number, that names it for good.

    Raises:
        FileNotFoundError: There is no such process, it is dead and not yet reaped, or ``/proc`` hides it.
    """
    fields = read_stat(pid)
    if not fields or fields[0] in {"Z", "X"}:
        raise FileNotFoundError(pid)
    return int(fields[19])


def is_alive(pid: int, start: int) -> bool:
    """Tell whether the process that ``read_start`` was called for is still there, not a later one of its number."""
    try:
        return read_start(pid) == start
    except FileNotFoundError:
        pass
    try:
        os.kill(pid, 0)  # where /proc hides the processes of others
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return False  # it is visible and has no start time: a zombie


def name_process() -> str:
    """Return ``host:pid:start``, which identifies this process even when its pid is used again."""
    return f"{socket.gethostname()}:{os.getpid()}:{read_start(os.getpid())}"


def may_be_alive(name: str | None, *, changed: float) -> bool:
    """Return whether the process of a name from ``name_process`` may still be at work on something.

    On another machine it may when that changed not long ago: ``changed`` is in seconds since the epoch.
    """
    host, pid, start = [*(name or "").split(":"), "", ""][:3]
    if host != socket.gethostname():
        return bool(name) and time.time() - changed < STALE_AFTER_SECONDS
    return pid.isdigit() and start.isdigit() and is_alive(int(pid), int(start))
