"""A running worker and its guard, as the host sees them, and how both are started."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path

from hone_runtime.contract.job import End
from hone_runtime.text import open_logger
from hone_runtime.values.base import Json
from kedro_hone.core.workers.host.replies import LARGEST_REPLY, parse_object

GUARD_SECONDS = 120.0
"""Limits how long a guard takes to start, and to detect its worker's end: it needs ten seconds, more on a busy
machine."""
_LOOK_SECONDS = 0.2
"""Seconds between two checks for a stop."""

_LOGGER = open_logger(__name__)
_GUARD_MAIN = Path(__file__).parents[1] / "guard" / "main.py"


class LineReader:
    """Reads lines of JSON objects from the end of a pipe without ever waiting in ``take``; the caller closes it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.closed = False
        self._rest = bytearray()
        self._lines: list[bytes] = []
        os.set_blocking(descriptor, False)

    def take(self) -> dict[str, Json] | None:
        """Return the next complete line, parsed; None if it has not arrived yet.

        Raises:
            ValueError: It is not a JSON object, or too long or too deep; the rest must not be read.
        """
        while not self._lines and not self.closed:
            try:
                data = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                break
            self.closed = not data
            self._rest += data
            if b"\n" in data:
                *lines, rest = bytes(self._rest).split(b"\n")
                self._lines.extend(lines)
                self._rest = bytearray(rest)
            if len(self._rest) > LARGEST_REPLY:
                raise ValueError(f"a line is longer than {LARGEST_REPLY >> 20} MiB")
        return parse_object(self._lines.pop(0)) if self._lines else None


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program run by a guard, with its arguments, all its variables, its working directory and its limits.

    Attributes:
        log: The file for its output, limited to ``log_bytes``.
        seconds: Its wall-clock limit; None if the caller limits each command.
        memory_bytes: The most memory that it and its children may use.
        interval: Seconds between two checks of the guard.
        address_bytes: The most address space that it may map, or None.
        file_bytes: The size of the largest file that it may write, or None.
        processes: How many processes it may be at once, or None.
        isolation: The limits for ``guard/isolation.py``, or None for a program with the same permissions as this
            process.
        keep: Descriptors that it inherits.
        disks: Folders on the disks to watch for their least free space.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    log: str
    log_bytes: int
    seconds: float | None
    memory_bytes: int
    interval: float
    address_bytes: int | None = None
    file_bytes: int | None = None
    processes: int | None = None
    isolation: Mapping[str, Json] | None = None
    keep: tuple[int, ...] = ()
    disks: tuple[str, ...] = ()


class Guarded:
    """A running program and its guard: if this process is killed, the program and all its children are killed too.

    ``stopped`` is called a few times a second while this process waits, and returns whether to end the program early.

    Attributes:
        reports: Reads the guard's reports.
        pid: The program's process number, once it started.
        end: How the program ended, once it did.

    Raises:
        OSError: The guard cannot be started.
    """

    def __init__(self, program: Program, *, stopped: Callable[[], bool] | None = None) -> None:
        self._stopped = stopped
        self._process = process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD_MAIN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=program.keep,
            start_new_session=True,  # Ctrl-C in the terminal goes to the host only, which then closes
            cwd="/",
            env={name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
        )
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("a guard needs pipes")
        self._input, self._errors = process.stdin, process.stderr
        self.reports = LineReader(process.stdout.fileno())
        self.pid: int | None = None
        self.end: End | None = None
        self._isolation: dict[str, Json] = {}
        self.send({**asdict(program), "host": os.getpid()})

    def send(self, message: Mapping[str, Json]) -> None:
        """Send the guard a message; do nothing if the guard is gone."""
        with contextlib.suppress(BrokenPipeError):
            self._input.write(json.dumps(message).encode() + b"\n")
            self._input.flush()

    def receive(self) -> dict[str, Json] | None:
        """Take the guard's next report without waiting."""
        report = self.reports.take()
        if report is None:
            if self.reports.closed and self.end is None:  # SIGKILL may end the guard itself
                self._give_up(self._errors.read().decode(errors="replace").strip())
            return None
        if "started" in report:
            self.pid, self._isolation = report["started"], report.get("isolation", {})
            if "no_namespaces" in report:
                _warn_once(report["no_namespaces"])
        if "ended" in report:
            self.end = End.model_validate({**report["ended"], "isolation": self._isolation})
        return report

    def request(self, command: str, key: str) -> Json:
        """Send a command and return the value of a key in the report; None if the worker ended instead."""
        self.send({"do": command})
        return self._wait_for(key)

    def wait(self, seconds: float | None = None) -> End:
        """Wait for the worker's end, which the guard enforces; the time limit is for a guard that hangs."""
        while self.end is None:
            self._wait_for("ended", seconds)
        return self.end

    def stop(self, reason: str) -> End:
        """Let the guard kill the worker and all its children."""
        self.send({"do": "kill", "reason": reason})
        return self.wait(GUARD_SECONDS)

    def close(self) -> None:
        """Make sure that worker, children and guard are gone."""
        if self.end is None:
            self.stop("closed")
        try:
            self._process.communicate(timeout=GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _wait_for(self, key: str, seconds: float | None = None) -> Json:
        """Return the value of a key in the next report that has it; None if the worker ended instead."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self.end is None:
            report = self.receive()
            if report is not None and key in report:
                return report[key]
            if report is None and self.end is None and not self.listen([self.reports.descriptor], deadline):
                self._process.kill()
                self._give_up("the guard does not respond")
        return None

    def listen(self, descriptors: Sequence[int], deadline: float | None) -> bool:
        """Wait until one of some descriptors can be read; return whether one can before the deadline (monotonic)."""
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if self._stopped is None or (left is not None and left <= _LOOK_SECONDS):
                return bool(wait(descriptors, left))
            if wait(descriptors, _LOOK_SECONDS):
                return True
            if self._stopped():
                self._stopped = None
                self.send({"do": "kill", "reason": "interrupted"})

    def _give_up(self, detail: str) -> None:
        """Kill the processes that a lost guard left behind."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.end = End(reason="guard-lost", detail=detail, isolation=self._isolation)


@functools.cache
def _warn_once(why: str) -> None:
    """Log once for each cause that workers lack namespaces, such as in every worker of a container."""
    _LOGGER.warning("Workers are isolated without namespaces (%s); see docs/concepts/security.md.", why)
