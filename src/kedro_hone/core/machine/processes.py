"""Processes by their number or name: whether one is still alive, and how much CPU time other processes used.

The kernel counts how long each core worked (``/proc/stat``, see proc(5)); the time of our own processes is subtracted.
Nothing runs in between: both are read at the start and at the end.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Final

STALE_AFTER_SECONDS: Final = 3600.0
"""The work of a process on another machine counts as abandoned if it did not change for this long."""
_PROC: Final = Path("/proc")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_BUSY: Final = (0, 1, 2, 5, 6, 7)
"""User, nice, system, interrupts, soft interrupts, and the time that a hypervisor gave to others (steal)."""
_ALL: Final = range(8)  # idle and waiting too; the guest times after them are part of user and nice


def share_of_others(start: tuple[float, float] | None) -> float | None:
    """Return the share of all CPU time that others used since ``read_load``, from 0 to 1; None if it is not known."""
    now = read_load()
    if start is None or now is None or now[1] <= start[1]:
        return None
    others, whole = (after - before for after, before in zip(now, start, strict=True))
    return min(1.0, max(0.0, others / whole))


def read_load() -> tuple[float, float] | None:
    """Return the seconds since the boot that others used of this process's cores, and all seconds of these cores.

    Others are all processes but this one and its descendants. None if the system does not report it.
    """
    wanted = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        lines = (line.split() for line in (_PROC / "stat").read_text().splitlines())
        rows = [[int(field) for field in fields] for name, *fields in lines if name in wanted]
        busy, whole = (sum(row[place] for row in rows for place in places) / _TICK for places in (_BUSY, _ALL))
        return busy - _read_own(), whole
    except (OSError, ValueError, IndexError):
        return None


def _read_own() -> float:
    """Return the seconds used by this process, its living descendants, and those that any of them has waited for."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for number in (int(place.name) for place in _PROC.glob("[0-9]*")):
        if fields := _read_stat(number):  # the time of one that ended is counted in its parent
            children.setdefault(int(fields[1]), []).append(number)
            used[number] = sum(map(int, fields[11:15]))
    ours = [os.getpid()]
    for parent in ours:  # grows while it is iterated
        ours += children.get(parent, ())
    return sum(used.get(one, 0) for one in ours) / _TICK


def identify_process(pid: int | None = None) -> str:
    """Return ``host:pid:start``, which identifies a process even when its pid is used again; by default this process.

    The start is in clock ticks since the boot; it is empty if the process is gone.
    """
    pid = os.getpid() if pid is None else pid
    return ":".join((socket.gethostname(), str(pid), *(_read_stat(pid)[19:20] or [""])))


def may_be_alive(name: str | None, *, changed: float) -> bool:
    """Return whether the process of a name from ``identify_process`` may still be working on something.

    On another machine it may if its work changed not long ago: ``changed`` is in seconds since the epoch.
    """
    host, pid, start = [*(name or "").split(":"), "", ""][:3]
    if host != socket.gethostname():
        return bool(name) and time.time() - changed < STALE_AFTER_SECONDS
    if not (pid.isdigit() and start.isdigit()):
        return False
    if fields := _read_stat(int(pid)):
        return fields[0] not in {"Z", "X"} and fields[19] == start  # neither dead, nor a later one with the same number
    try:
        os.kill(int(pid), 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # /proc hides the processes of others
    return False


def _read_stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/<pid>/stat`` after the name, the state first; an empty list if it cannot be read.

    It cannot if there is no such process, or if it is another user's and ``hidepid`` hides it.
    """
    try:
        # The name in parentheses may contain blanks and parentheses.
        return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
