"""Processes by their number or name: whether one is still alive, and what others took of the cores meanwhile.

The kernel counts how long each core worked (``/proc/stat``, see proc(5)); what our own processes used of that is taken
off. Nothing runs in between: both are read at the start and at the end.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

STALE_AFTER_SECONDS: Final = 3600.0
"""What a process of another machine makes counts as abandoned when it did not change for this long."""
_PROC: Final = Path("/proc")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_BUSY: Final = (0, 1, 2, 5, 6, 7)
"""User, nice, system, interrupts, soft interrupts, and what a hypervisor gave to others (steal)."""
_ALL: Final = range(8)  # idle and waiting too; the times of guests behind them are part of user and nice


class OtherLoad:
    """The share of the cores' time that other processes took, from the moment when this is made.

    The cores (their numbers) are those that this process may use when None. No other is the process ``pid``, this one
    when None, with all its descendants.
    """

    def __init__(self, *, cores: Collection[int] | None = None, pid: int | None = None, proc: Path = _PROC) -> None:
        self._cores = os.sched_getaffinity(0) if cores is None else cores
        self._pid, self._proc = os.getpid() if pid is None else pid, proc
        self._start = self._read()

    def share(self) -> float | None:
        """Return the share, from 0 to 1, until now; None where the system does not tell."""
        now = self._read()
        if self._start is None or now is None or now[1] <= self._start[1]:
            return None
        others, whole = (after - before for after, before in zip(now, self._start, strict=True))
        return min(1.0, max(0.0, others / whole))

    def _read(self) -> tuple[float, float] | None:
        """Return the seconds that others used, and all seconds of the cores."""
        try:
            busy, whole = read_cores(self._cores, proc=self._proc)
            return busy - read_own(self._pid, proc=self._proc), whole
        except (OSError, ValueError, IndexError):
            return None


def read_cores(cores: Collection[int], *, proc: Path = _PROC) -> tuple[float, float]:
    """Return how long some cores worked since the boot, and how long they were there, in seconds over all of them.

    Raises:
        OSError: The system does not tell.
    """
    wanted = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in (proc / "stat").read_text().splitlines())
    rows = [[int(field) for field in fields] for name, *fields in lines if name in wanted]
    busy, whole = (sum(row[place] for row in rows for place in places) / _TICK for places in (_BUSY, _ALL))
    return busy, whole


def read_own(pid: int, *, proc: Path = _PROC) -> float:
    """Return what a process, its living descendants, and those that any of them has waited for, used, in seconds."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for number in (int(place.name) for place in proc.glob("[0-9]*")):
        if fields := _read_stat(number, proc=proc):  # of one that ended, its parent has the time
            children.setdefault(int(fields[1]), []).append(number)
            used[number] = sum(map(int, fields[11:15]))
    ours = [pid]
    for parent in ours:  # grows while it is walked
        ours += children.get(parent, ())
    return sum(used.get(one, 0) for one in ours) / _TICK


def read_start(pid: int) -> int:
    """Return when a process started, in clock ticks since the boot; with its number, that names it for good.

    Raises:
        FileNotFoundError: There is no such process, it is dead and not yet reaped, or ``/proc`` hides it.
    """
    fields = _read_stat(pid)
    if not fields or fields[0] in {"Z", "X"}:
        raise FileNotFoundError(pid)
    return int(fields[19])


def is_alive(pid: int, start: int) -> bool:
    """Tell whether the process that ``read_start`` was called for is still there, not a later one of its number."""
    try:
        return read_start(pid) == start
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except OSError as error:
            return isinstance(error, PermissionError)  # /proc hides the processes of others
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


def _read_stat(pid: int, *, proc: Path = _PROC) -> list[str]:
    """Return what ``/proc/<pid>/stat`` says after the name, the state first; nothing when there is no such process."""
    try:
        # The name in parentheses may hold blanks and parentheses.
        return (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
