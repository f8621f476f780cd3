"""Processes of this machine by their number: what the kernel says of them, and whether one is still alive."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")


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
