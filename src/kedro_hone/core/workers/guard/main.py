"""The guard of a worker: the parent process that enforces its limits, is never stopped, and ends with it.

Run by path (``python -I -S guard/main.py``) with the standard library only, because it must start in a few milliseconds
and must not fail for the same reasons as workers. It speaks JSON lines with the host: it reads the configuration and
the commands from its standard input, and writes reports to its standard output.

As a *child subreaper* it becomes the parent of every orphan process of the worker, also of those that made a session of
their own. So all processes of the worker are the descendants of the guard, and when ``wait`` finds no child, none is
left.
"""

# pathlib would take longer to import than the guard takes to start.
# ruff: noqa: PTH100, PTH120

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kedro_hone.core.workers.guard.log import ClippedLog
    from kedro_hone.core.workers.guard.processes import Descendants, become_worker, find_descendants
else:  # run by path and isolated: our package is not importable, and its module name "types" is already used
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from log import ClippedLog
    from processes import Descendants, become_worker, find_descendants

    sys.path.pop()

PR_SET_CHILD_SUBREAPER = 36

STOP_SECONDS = 2.0
"""How long to wait until processes have stopped: on a busy machine they must be scheduled first. A process in
uninterruptible sleep does not compute either."""

GRACE_SECONDS = 2.0
"""How long processes left behind by the worker may take to notice its end, also on a busy machine."""

KILL_SECONDS = 10.0
"""How long to wait for killed processes; one in uninterruptible sleep may never end."""


class Guard:
    """Starts one worker, watches it, and ends with it.

    The configuration has the fields of ``Program`` in ``host/guarded.py``, and the process number of the ``host``.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.log = ClippedLog(config["log"], config["log_bytes"])
        self.log_end, self.log_start = os.pipe2(os.O_CLOEXEC)
        self.descendants = Descendants()
        self.reason: str | None = None
        self.status: int | None = None
        self.peak = 0
        self.commands = b""
        self.paused_at: float | None = None
        self.paused_seconds = 0.0
        self.next_look = 0.0
        self.confirmed = 0
        self.disk, self.free = "", sys.maxsize

    def run(self) -> None:
        """Start the worker, watch it until its end, and finally report the end."""
        wake = self._listen_for_signals()
        outcome = self._start()
        if "problem" in outcome:
            report({"ended": {"exit": None, "signal": None, "reason": "not-started", "detail": outcome["problem"]}})
            return
        report({**outcome, "started": self.worker})
        poller = select.poll()
        for descriptor in (0, self.log_end, wake):
            poller.register(descriptor, select.POLLIN)
        while self.status is None and self.reason is None:
            wait = 1000.0 if self.paused_at is not None else max(0.0, self.next_look - time.monotonic()) * 1000
            for descriptor, _ in poller.poll(wait):
                if descriptor == 0:
                    self._obey()
                elif descriptor == wake:
                    os.read(wake, 4096)
                    self._reap()
                elif self._drain() == b"":
                    poller.unregister(self.log_end)
            self._look()
        self._end()

    def _listen_for_signals(self) -> int:
        wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._terminate)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        return wake

    def _terminate(self, *_: object) -> None:
        self.reason = "terminated"

    def _start(self) -> dict[str, Any]:
        """Start the worker, and return the report of ``become_worker``."""
        self.began = time.monotonic()
        outcome = self._fork()
        if "no_namespaces" in outcome:
            os.waitpid(self.worker, 0)
            self.config["isolation"]["layers"].remove("namespaces")
            outcome.update(self._fork())
        for descriptor in (self.log_start, *self.config["keep"]):
            os.close(descriptor)
        os.set_blocking(self.log_end, False)
        return outcome

    def _fork(self) -> dict[str, Any]:
        """Fork, and read reports until the worker's program starts, which closes its end of the pipe."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self.worker = os.fork()
        if self.worker == 0:
            become_worker(self.config, self.log_start, writing)
        os.close(writing)
        outcome: dict[str, Any] = {}
        with os.fdopen(reading, "rb") as stream:
            for line in stream:
                outcome.update(json.loads(line))
        return outcome

    def _obey(self) -> None:
        data = os.read(0, 65536)
        if not data:
            self.reason = "closed"
            return
        *lines, self.commands = (self.commands + data).split(b"\n")
        for line in lines:
            command = json.loads(line)
            if command["do"] == "kill":
                self.reason = command["reason"]
            elif command["do"] == "pause":
                self._pause()
            elif command["do"] == "resume":
                self._resume()
            elif command["do"] == "memory":
                self.descendants.refresh(force=True)
                report({"memory": self.descendants.measure()})
            elif command["do"] == "peak":
                self.descendants.refresh(force=True)
                report({"peak": max(self.peak, self.descendants.measure_peak())})

    def _pause(self) -> None:
        self._stop()
        end = time.monotonic() + STOP_SECONDS
        while not self.descendants.stand_still() and time.monotonic() < end:
            time.sleep(0.0005)
        self.paused_at = self.paused_at or time.monotonic()
        report({"paused": True})

    def _stop(self) -> None:
        stopped: set[int] = set()
        self.descendants.refresh(force=True)
        while not stopped.issuperset(self.descendants.pids):  # until no process is left that could fork
            stopped.update(self.descendants.pids)
            self.descendants.send(signal.SIGSTOP)
            self.descendants.refresh(force=True)

    def _resume(self) -> None:
        self.descendants.send(signal.SIGCONT)
        if self.paused_at is not None:
            self.paused_seconds += time.monotonic() - self.paused_at
        self.paused_at = None
        report({"paused": False})

    def _look(self) -> None:
        if os.getppid() != self.config["host"]:  # a fork of the host may still have the other end of our input
            self.reason = "closed"
        now = time.monotonic()
        if self.paused_at is not None or now < self.next_look:
            return
        self.next_look = now + self.config["interval"]
        seconds = self.config["seconds"]
        if seconds is not None and now - self.began - self.paused_seconds > seconds:
            self.reason = "time-out"
        self._look_at_disks()
        self.descendants.refresh()
        if len(self.descendants.pids) > (self.config["processes"] or sys.maxsize):
            self.reason = "too-many-processes"
        memory = self.descendants.measure()
        self.peak = max(self.peak, memory)
        limit = self.config["memory_bytes"]
        # Shared memory that was found stays allowed until it has grown by a sixteenth of the limit.
        if memory > limit and memory > self.confirmed + limit // 16:
            if self.descendants.measure_shared_once() > limit:
                self.reason = "out-of-memory"
            self.confirmed = memory

    def _look_at_disks(self) -> None:
        """Record the least free space: a worker may remove the files that filled the disk before it ends."""
        for folder in self.config.get("disks", ()):
            with contextlib.suppress(OSError):
                found = os.statvfs(folder)
                free = 0 if found.f_files > 0 and found.f_favail == 0 else found.f_bavail * found.f_frsize
                if free < self.free:
                    self.disk, self.free = folder, free

    def _drain(self) -> bytes | None:
        """Read the pipe's available data once; empty bytes if it is closed, None if there is no data yet."""
        try:
            data = os.read(self.log_end, 1 << 16)
        except BlockingIOError:
            return None
        self.log.add(data)
        return data

    def _reap(self) -> bool:
        """Reap ended processes; return whether no child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            self.peak = max(self.peak, usage.ru_maxrss * 1024)  # the kernel's record: misses no peak between checks
            if pid == self.worker:
                self.status = status

    def _end(self) -> None:
        left_behind = 0
        self._look_at_disks()
        if self.reason is None and not self._wait_for_all(GRACE_SECONDS):
            left_behind = len(find_descendants(os.getpid()))
        end = time.monotonic() + KILL_SECONDS
        self.descendants.kill_groups()  # at once, before any of their processes forks again
        while not self._reap() and time.monotonic() < end:
            self.descendants.pids = find_descendants(os.getpid())
            self.descendants.send(signal.SIGKILL)
            self._wait_for_all(0.02)
        while self._drain():
            pass
        self.log.finish()
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        ended = {
            "exit": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "reason": self.reason,
            "seconds": time.monotonic() - self.began - self.paused_seconds,
            "peak_memory_bytes": self.peak,
            "left_behind": left_behind,
            "log_left_out": self.log.left_out,
            "disk": self.disk,
            "disk_free": self.free if self.disk else None,
        }
        report({"ended": ended})

    def _wait_for_all(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self._reap():
            if time.monotonic() > end:
                return False
            self._drain()
            time.sleep(0.002)
        return True


def report(message: dict[str, Any]) -> None:
    """Send the host a report; do nothing if the host is gone."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")


def main() -> None:
    """Read the configuration, the first line of the input, and guard the worker."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with open(0, "rb", buffering=0, closefd=False) as stream:  # without a buffer: commands follow
        line = stream.readline()
    if line.endswith(b"\n"):
        Guard(json.loads(line)).run()


if __name__ == "__main__":
    main()
