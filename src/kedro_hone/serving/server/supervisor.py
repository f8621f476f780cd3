"""The first process of a server: it starts the processes that serve, restarts those that end, and passes on signals.

It imports no runtime. As the first process of a container it also collects orphans.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hone_runtime.errors import ExitCode
from kedro_hone.serving.server.configuration import Configuration, read_configuration
from kedro_hone.serving.server.logs import log
from kedro_hone.serving.server.ports import format_address, reserve_ports

WORKER: Final = "kedro_hone.serving.server.worker"
METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
_QUIET: Final = {"GRPC_VERBOSITY": "NONE"}
"""gRPC's own log has a line for each strange request."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_DELAYS: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""How long the restart of a process waits, in seconds, after each failure in a row."""
_HEALTHY_SECONDS: Final = 5.0
"""A process that served so long was not at fault: it is replaced at once."""
_MARGIN_SECONDS: Final = 5.0
"""How long a process may take to end beyond the grace, before it is killed."""


@dataclass(kw_only=True)
class _Worker:
    """A process that serves.

    Attributes:
        pipe: The end of a pipe that becomes readable when the process is ready; -1 when it was read.
        since: When it became ready, by a clock that does not go back.
    """

    process: subprocess.Popen[bytes]
    pipe: int
    since: float
    ready: bool = False


@dataclass(kw_only=True)
class Supervisor:
    """The processes of a server.

    Attributes:
        start: Starts a process that writes to a file descriptor when it is ready.
        count: How many are kept running.
        grace: How long they may take to stop, in seconds.
        announce: Called once, when all are ready for the first time.
        forget: Called with the number of each process that has ended.
    """

    start: Callable[[int], subprocess.Popen[bytes]]
    count: int
    grace: float
    announce: Callable[[], None]
    forget: Callable[[int], None] = lambda _: None
    _workers: list[_Worker] = field(default_factory=list)
    _due: list[float] = field(default_factory=list)
    _failures: int = 0
    _announced: bool = False
    _stopping: float | None = None

    def run(self, wakeups: int) -> int:
        """Keep the processes running until a signal comes, and return the exit code.

        Args:
            wakeups: A file descriptor from which the numbers of signals are read.
        """
        self._due = [time.monotonic()]  # the others after it is ready: what is wrong with a model is said once
        while self._workers or self._due:
            self._start_due()
            pipes = [one.pipe for one in self._workers if one.pipe >= 0]
            readable, _, _ = select.select([wakeups, *pipes], [], [], self._choose_timeout())
            if wakeups in readable:
                self._handle(os.read(wakeups, 64))
            for one in self._workers:
                if one.pipe in readable:
                    self._note_ready(one)
            code = self._collect()
            if code is not None:
                return code
            self._kill_late()
        return ExitCode.SUCCESS

    def _start_due(self) -> None:
        now = time.monotonic()
        while self._due and self._stopping is None and self._due[0] <= now:
            self._due.pop(0)
            reading, writing = os.pipe()
            try:
                process = self.start(writing)
            finally:
                os.close(writing)
            self._workers.append(_Worker(process=process, pipe=reading, since=now))

    def _choose_timeout(self) -> float | None:
        """Return the seconds until something is due; None to wait for a signal or a process."""
        if self._stopping is not None:
            return 0.5
        return max(0.0, self._due[0] - time.monotonic()) if self._due else None

    def _handle(self, numbers: bytes) -> None:
        if self._stopping is None and any(one in numbers for one in _SIGNALS):
            self._stop()

    def _stop(self) -> None:
        self._stopping = time.monotonic()
        self._due.clear()
        log("stopping")
        for one in self._workers:
            one.process.terminate()

    def _kill_late(self) -> None:
        if self._stopping is not None and time.monotonic() > self._stopping + self.grace + _MARGIN_SECONDS:
            for one in self._workers:
                one.process.kill()

    def _note_ready(self, one: _Worker) -> None:
        one.ready, one.since = bool(os.read(one.pipe, 1)), time.monotonic()
        os.close(one.pipe)
        one.pipe = -1
        if self._announced and one.ready:
            log(f"process {one.process.pid} is ready")
        if self._announced or self._due or not all(other.ready for other in self._workers):
            return
        if len(self._workers) < self.count:
            self._due = [time.monotonic()] * (self.count - len(self._workers))
        else:
            self._announced = True
            self.announce()

    def _collect(self) -> int | None:
        """Remove the processes that have ended, and plan their restart; return the exit code if the server ends."""
        for one in [one for one in self._workers if one.process.poll() is not None]:
            self._workers.remove(one)
            self.forget(one.process.pid)
            if one.pipe >= 0:
                os.close(one.pipe)
            code = one.process.returncode
            if self._stopping is not None:
                continue
            if not self._announced:
                self._stop()
                self._wait()
                log(f"a process ended with {code} before the server was ready", warning=True)
                return code if code > 0 else ExitCode.BUG
            self._plan_restart(one, code)
        _collect_orphans({one.process.pid for one in self._workers})
        return None

    def _plan_restart(self, one: _Worker, code: int) -> None:
        healthy = one.ready and time.monotonic() - one.since > _HEALTHY_SECONDS
        self._failures = 0 if healthy else self._failures + 1
        delay = _DELAYS[min(self._failures, len(_DELAYS)) - 1] if self._failures else 0.0
        log(f"process {one.process.pid} ended with {code}; another one starts in {delay:g} s", warning=True)
        self._due = sorted([*self._due, time.monotonic() + delay])

    def _wait(self) -> None:
        for one in self._workers:
            try:
                one.process.wait(self.grace + _MARGIN_SECONDS)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()


def supervise(path: Path) -> int:
    """Run a server until a signal comes, and return its exit code.

    With one process and given ports nothing is written, so that it runs where every file is read-only.

    Args:
        path: The configuration.

    Raises:
        OSError, ValueError: The configuration cannot be read.
        HoneError: ``port-in-use``.
    """
    configuration, variables = read_configuration(path), {**_QUIET, **os.environ}
    with ExitStack() as stack:
        ports = stack.enter_context(reserve_ports(configuration.host, configuration.http_port, configuration.grpc_port))
        chosen = configuration.model_copy(update={"http_port": ports[0], "grpc_port": ports[1]})
        file, metrics = path, None
        if chosen != configuration or chosen.workers > 1:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="kedro-hone-server-")))
            file, metrics = folder / "configuration.json", folder / "metrics"
            file.write_text(chosen.model_dump_json())
            metrics.mkdir()
        if metrics and chosen.workers > 1:
            variables[METRICS_FOLDER] = str(metrics)

        def start(descriptor: int) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-P", "-m", WORKER, str(file), str(descriptor)]
            return subprocess.Popen(command, pass_fds=[descriptor], env=variables, stdin=subprocess.DEVNULL)

        def forget(process: int) -> None:
            for gauge in metrics.glob(f"gauge_live*_{process}.db") if metrics else ():  # what it had not answered
                gauge.unlink()

        supervisor = Supervisor(
            start=start,
            count=chosen.workers,
            grace=chosen.limits.grace_seconds,
            announce=lambda: print_start(chosen),
            forget=forget,
        )
        return supervisor.run(stack.enter_context(_catch_signals()))


def print_start(configuration: Configuration) -> None:
    """Print one line about the models and the addresses."""
    host = configuration.host
    http, grpc = (format_address(host, port) for port in (configuration.http_port, configuration.grpc_port))
    if configuration.json_line:
        models = [{"name": one.name, "version": one.version, "uri": one.uri} for one in configuration.models]
        line = json.dumps({"http": f"http://{http}", "grpc": grpc, "models": models, "pid": os.getpid()})
    else:
        names = ", ".join(f"{one.name} (version {one.version})" for one in configuration.models)
        line = f"Serving {names} on http://{http}/v2 and gRPC {grpc}"
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def _catch_signals() -> Iterator[int]:
    """Return a file descriptor from which the numbers of signals are read."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*_SIGNALS, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def _collect_orphans(own: set[int]) -> None:
    """Collect processes that a process left behind, if this is the first process of a container."""
    if os.getpid() != 1:
        return
    while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and found.si_pid not in own:
        os.waitpid(found.si_pid, os.WNOHANG)
