"""Other processes of this machine: whether the one that left something behind is still alive."""

from __future__ import annotations

import os
from pathlib import Path


def read_start(pid: int) -> int:
    """Return when a process started, in clock ticks since the boot; with its number, that names it for good.

    Raises:
        FileNotFoundError: There is no such process, it is dead and not yet reaped, or ``/proc`` hides it.
    """
    try:
        # The name in parentheses may hold blanks; after it, the start time is the twentieth field.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except ProcessLookupError as error:
        raise FileNotFoundError(pid) from error
    if fields[0] in {"Z", "X"}:
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
