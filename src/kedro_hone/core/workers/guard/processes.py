"""Processes for the guard: turning a fork into the worker, and finding its descendants. The standard library only."""

# pathlib would take longer to import than the guard takes to start.
# ruff: noqa: PTH100, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from kedro_hone.core.workers.guard.isolation import isolate
else:  # run by path: our package is not importable
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from isolation import isolate

    sys.path.pop()

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
PAGE = os.sysconf("SC_PAGE_SIZE")


class Descendants:
    """The living descendants of this process and their memory.

    Scanning ``/proc`` takes milliseconds if there are many processes, which would disturb measurements. The last
    process number of ``/proc/loadavg`` shows, in a few microseconds, whether any process was started since then.
    """

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.mark: bytes | None = None
        self.rest_until = 0.0

    def refresh(self, *, force: bool = False) -> None:
        """Look for new processes; without ``force``, this takes at most a tenth of the time."""
        now = time.monotonic()
        if not force and now < self.rest_until:
            return
        mark = read_whole("/proc/loadavg").rpartition(b" ")[2].strip()
        if mark == self.mark and mark not in {b"", b"0"}:
            return
        self.pids = find_descendants(os.getpid())
        self.mark = mark
        done = time.monotonic()
        self.rest_until = done + 10 * (done - now)

    def measure(self) -> int:
        """Return the sum of their resident memory, in bytes; shared pages count for each."""
        return sum(_measure_resident(pid) for pid in self.pids)

    def measure_peak(self) -> int:
        """Return the peak resident memory of the largest of them in bytes, as recorded by the kernel."""
        return max(map(_read_peak, self.pids), default=0)

    def measure_shared_once(self) -> int:
        """Return the sum of their proportional memory in bytes: slower, but memory shared by forks counts once."""
        return sum(_measure_proportional(pid) for pid in self.pids)

    def stand_still(self) -> bool:
        """Whether all of them are stopped or gone; a signal takes effect a moment after it was sent."""
        states = (_read_fields(pid)[:1] for pid in self.pids)
        return all(not state or state[0] in {b"T", b"t", b"Z", b"X"} for state in states)

    def kill_groups(self) -> None:
        """Kill the process groups of all living descendants: they belong to the worker's session and nothing else."""
        pids = find_descendants(os.getpid())
        for group in {fields[2].split(None, 1)[0] for fields in map(_read_fields, pids) if len(fields) == 3}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if int(group) not in {0, os.getpgrp()}:
                    os.killpg(int(group), signal.SIGKILL)

    def send(self, number: int) -> None:
        """Send a signal to all processes found at the last refresh."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def find_descendants(root: int) -> list[int]:
    """Return the numbers of all processes below one, parents first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _read_fields(int(name))
            if len(fields) == 3 and fields[0] not in {b"Z", b"X"}:
                children.setdefault(int(fields[1]), []).append(int(name))
    found = list(children.get(root, []))
    for pid in found:  # grows while it is iterated
        found.extend(children.get(pid, []))
    return found


def _read_fields(pid: int) -> list[bytes]:
    """Return a process's state, its parent's number and the unsplit rest; an empty list if it is gone."""
    return read_whole(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 2)


def _read_peak(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in read_whole(f"/proc/{pid}/status").splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _measure_resident(pid: int) -> int:
    fields = read_whole(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE if len(fields) > 1 else 0


def _measure_proportional(pid: int) -> int:
    for line in read_whole(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return _measure_resident(pid)  # an old kernel, or one that does not show it to us


def read_whole(path: str) -> bytes:
    """Return a file of ``/proc``, or empty bytes if the process is gone."""
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read()
    except OSError:
        return b""


def become_worker(config: dict[str, Any], log: int, pipe: int) -> NoReturn:
    """Turn the forked child into the worker: its own session, its limits, its streams, its program.

    Before the program starts, this writes lines of JSON to the guard's ``pipe``: the ``isolation`` in force, a
    ``problem``, or the reason for ``no_namespaces``. After the latter, the guard starts the worker again without them.
    """
    try:
        guard = os.getppid()
        os.setsid()
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # so that it cannot start a process that we may not signal
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_AS, config["address_bytes"])
        _limit(resource.RLIMIT_FSIZE, config["file_bytes"])
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as stream:
            stream.write("500")  # if permitted, killed before the guard and the host when memory runs out
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # ignored signals would stay ignored in the new program
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if config["isolation"] and _isolate(config["isolation"], pipe)["namespaces"]:
            config["environment"].update(config["isolation"]["variables"])
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if the guard is killed; new privileges would unset it
        if os.getppid() != guard:
            os._exit(127)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for descriptor in config["keep"]:
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - it takes no names
        os.chdir(config["folder"])
        os.execve(config["command"][0], config["command"], config["environment"])  # noqa: S606
    except Exception as error:  # noqa: BLE001 - any error must be reported to the host
        _report(pipe, "problem", f"{config['command'][0]}: {error}")
    finally:
        os._exit(127)


def _limit(kind: int, most: int | None) -> None:
    if most is not None:
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(hard, most)
        resource.setrlimit(kind, (most, most))


def _isolate(limits: dict[str, Any], pipe: int) -> dict[str, Any]:
    """Isolate this process; if there are no namespaces, end it, and let the guard try without them."""
    try:
        layers = isolate(limits)
        _report(pipe, "isolation", layers)
    except OSError as error:
        if "namespaces" not in limits["layers"]:
            raise
        _report(pipe, "no_namespaces", str(error))
        os._exit(127)
    return layers


def _report(pipe: int, what: str, value: object) -> None:
    os.write(pipe, json.dumps({what: value}).encode() + b"\n")
