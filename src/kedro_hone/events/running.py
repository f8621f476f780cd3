"""Runs of the queue: one process of ``kedro run`` for each job, with a limit of time, and what became of it."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kedro_hone.core.errors import ExitCode, HoneError
from kedro_hone.core.machine.processes import name_process
from kedro_hone.core.store.disk import write_file
from kedro_hone.events.groups import end_group, end_process, is_process
from kedro_hone.events.job import HandOver, Job, State
from kedro_hone.events.journal import log
from kedro_hone.events.queue import Queue
from kedro_hone.report.result_file import VARIABLE, RunResult, read_result

SKIPPED: Final = 20
"""The exit code of a job whose version is a winner already."""
TRANSIENT: Final = frozenset(
    {"registry-unreachable", "registry-limited", "store-unreachable", "data-not-pulled", "cluster-unreachable"}
)
"""Errors that may pass by themselves."""
VERDICTS: Final = frozenset({ExitCode.SUCCESS, ExitCode.FAIL, ExitCode.INCONCLUSIVE})
KILLED: Final = frozenset({ExitCode.TERMINATED, ExitCode.INTERRUPTED})
"""The exit codes of a run that was told to end by SIGTERM or SIGINT, and ended in order."""
_POLL_SECONDS: Final = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 3600.0


class End(NamedTuple):
    """How a job's process ended.

    Attributes:
        code: Its exit code, negative for a signal.
        cause: Empty where it ended by itself; else ``cancelled``, ``stopped`` or ``late``.
    """

    code: int
    cause: str = ""


class Runner:
    """Starts the jobs of the queue in threads, as many at once on each device as its number says.

    Args:
        queue: The queue.
        project: The root of the Kedro project.
        devices: How many jobs there may be at once on each device.
        attempts: How often a job is started while it fails for a reason that may pass.
        seconds: How long a job may take.
        hidden: The names of variables that a run is not given: the service's secrets.
        for_dispatch: What only a job that is handed over is given.
        command: Returns the command that runs the job of a folder.
        rule: Whose jobs alone are started and settled; None for those of all.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        project: Path,
        devices: dict[str, int],
        attempts: int,
        seconds: float,
        hidden: Collection[str] = (),
        for_dispatch: Mapping[str, str] | None = None,
        command: Callable[[Path], list[str]] | None = None,
        rule: str | None = None,
    ) -> None:
        self._queue, self._project, self._devices = queue, project, devices
        self._attempts, self._seconds, self._hidden = attempts, seconds, frozenset(hidden)
        self._command, self._for_dispatch = command or name_command, dict(for_dispatch or {})
        self._rule = rule
        self._stopping, self._work = threading.Event(), threading.Condition()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Settle what an earlier service left running, and start to work."""
        for job in self._queue.list_left():
            if self._rule not in {None, job.rule}:
                continue
            if job.state is State.RUNNING:
                self._settle(job)
            elif is_process(job.process):  # it was cancelled, and the service died before it had ended
                end_process(job.process)
        for device, count in self._devices.items():
            for _ in range(count):
                thread = threading.Thread(target=self._serve, args=(device,), name=f"hone-{device}")
                thread.start()
                self._threads.append(thread)

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """Those that were started."""
        return tuple(self._threads)

    def wake(self) -> None:
        """Look for work at once."""
        with self._work:
            self._work.notify_all()

    def stop(self) -> None:
        """End what runs, queue it again, and return when all is ended."""
        self._stopping.set()
        self.wake()
        for thread in self._threads:
            thread.join()

    def find_folder(self, number: int) -> Path:
        """Return the folder of a job: ``job.json``, ``log``, ``result.json``."""
        return self._project / "data" / "hone" / "jobs" / str(number)

    def _serve(self, device: str) -> None:
        while not self._stopping.is_set():
            try:
                job = self._queue.claim(device, at_most=self._devices[device], rule=self._rule)
            except Exception as error:  # noqa: BLE001 - as below; a row that cannot be read is one more
                log("queue-broken", level=logging.ERROR, reason=getattr(error, "why", "") or str(error))
                job = None
            if job is None:
                with self._work:
                    self._work.wait(_POLL_SECONDS * 2)
                continue
            try:
                self._run(job)
            except Exception as error:  # noqa: BLE001 - the device must be served on; a full disk is the usual reason
                log("job-not-started", level=logging.ERROR, job=job.id, reason=f"{type(error).__name__}: {error}")
                with suppress(HoneError):
                    self._put_back(job, f"It could not be started: {error}")
                self._stopping.wait(_POLL_SECONDS * 10)

    def _run(self, job: Job) -> None:
        folder = self.find_folder(job.id)
        folder.mkdir(parents=True, exist_ok=True)
        result = folder / "result.json"
        result.unlink(missing_ok=True)
        write_file(folder / "job.json", job.model_dump_json(include={"id", "uri", "task"}).encode())
        kept = {name: value for name, value in os.environ.items() if name not in self._hidden}
        kept |= self._for_dispatch if isinstance(job.task, HandOver) else {}
        with (folder / "log").open("ab") as text:
            process = subprocess.Popen(
                self._command(folder),
                cwd=self._project,
                env=kept | {VARIABLE: str(result), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,
                stdout=text,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        with suppress(HoneError):  # the disk is full: without it, only a service that dies now leaves the run behind
            self._queue.note_process(job.id, name_process(process.pid))
        if process.stdin:  # the job waits for this line, so that nothing runs whose process nobody has noted
            with suppress(BrokenPipeError), process.stdin as given:
                given.write(b"go\n")
        log("job-started", job=job.id, uri=job.uri, rule=job.rule, attempt=job.attempts)
        try:
            end = self._wait(job, process)
        except BaseException:  # it is put back, and must not run twice
            end_group(process.pid, process.poll)
            raise
        self._insist(lambda: self._judge(job, end, read_result(result)))

    def _wait(self, job: Job, process: subprocess.Popen[bytes]) -> End:
        """Return how the process ended; end it where it is cancelled, is late, or the service stops."""
        deadline = time.monotonic() + self._seconds
        while process.poll() is None:
            try:
                process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                causes = {
                    "stopped": self._stopping.is_set(),
                    "cancelled": self._is_cancelled(job),
                    "late": time.monotonic() > deadline,
                }
                if cause := next((cause for cause, holds in causes.items() if holds), ""):
                    end_group(process.pid, process.poll)
                    return End(process.wait(), cause)
        told = process.returncode in KILLED or process.returncode < 0
        return End(process.returncode, "stopped" if told and self._stopping.is_set() else "")

    def _is_cancelled(self, job: Job) -> bool:
        try:
            now = self._queue.find(job.id)
        except HoneError as error:  # the run goes on, and its end is written once the queue can be
            log("queue-broken", level=logging.ERROR, reason=error.why)
            return False
        return now is None or now.state is not State.RUNNING

    def _insist(self, write: Callable[[], None]) -> None:
        """Write into the queue what became of a job, as soon as it can be written, or the service stops."""
        while True:
            try:
                return write()
            except HoneError as error:
                log("queue-broken", level=logging.ERROR, reason=error.why)
                if self._stopping.wait(_POLL_SECONDS * 10):
                    return None

    def _judge(self, job: Job, end: End, result: RunResult) -> None:
        """Write into the queue what became of a job: what was published counts, however its process ended."""
        code, said = end.code, result.message
        published = result.published or _read_publication(result.folder)
        if published or code in VERDICTS:
            self._finish(job, State.DONE, code, result.model_copy(update={"published": published}), reason=said)
        elif code == SKIPPED:
            self._finish(job, State.SKIPPED, code, result, reason=said)
        elif end.cause == "stopped":
            self._queue.put_back(job.id, seconds=0, reason="The service was stopped.", spent=False)
        elif end.cause == "late":
            self._finish(job, State.FAILED, code, result, reason=f"It took longer than {self._seconds:.0f} s.")
        elif (code == ExitCode.INPUT and result.slug in TRANSIENT) or code < 0 or code in KILLED:
            self._put_back(job, said or f"It was ended by a signal (exit code {code}).", code=code)
        else:
            self._finish(job, State.FAILED, code, result, reason=said or f"It ended with the exit code {code}.")

    def _finish(self, job: Job, state: State, code: int, result: RunResult, *, reason: str) -> None:
        self._queue.finish(
            job.id, state, exit_code=code, verdict=result.verdict, published=result.published, reason=reason
        )
        log("job-ended", job=job.id, uri=job.uri, state=state, code=code, verdict=result.verdict, reason=reason)

    def _put_back(self, job: Job, reason: str, *, code: int | None = None) -> None:
        """Queue a job again after a pause, or give up where it was started often enough."""
        if job.attempts >= self._attempts:
            self._queue.finish(job.id, State.FAILED, exit_code=code, reason=f"{reason} Tried {job.attempts} times.")
            log("job-ended", job=job.id, uri=job.uri, state=State.FAILED, code=code, reason=reason)
            return
        seconds = choose_pause(job.attempts)
        self._queue.put_back(job.id, seconds=seconds, reason=reason)
        log("job-waits", job=job.id, seconds=round(seconds), reason=reason)

    def _settle(self, job: Job) -> None:
        """End what is left of a job that was running when the service died, and queue it again unless it was done."""
        if is_process(job.process):
            end_process(job.process)
        result = read_result(self.find_folder(job.id) / "result.json")
        if published := result.published or _read_publication(result.folder):
            result = result.model_copy(update={"published": published})
            self._finish(job, State.DONE, ExitCode.SUCCESS, result, reason="The service died when it was published.")
        elif job.attempts >= self._attempts:
            self._put_back(job, "The service died while it ran.")
        else:
            self._queue.put_back(job.id, seconds=0, reason="The service died while it ran.")
            log("job-waits", job=job.id, seconds=0, reason="the service died while it ran")


def name_command(folder: Path) -> list[str]:
    """Return the command that runs the job of a folder."""
    return [sys.executable, "-m", "kedro_hone", "hone", "job", str(folder)]


def choose_pause(attempts: int) -> float:
    """Return the seconds to wait after some attempts: exponential, with full jitter, an hour at most.

    Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015.
    """
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (attempts - 1))
    return random.uniform(longest / 2, longest)  # noqa: S311 - no secret


def _read_publication(folder: str) -> str:
    """Return the URI in ``publication.json`` of a run's folder; empty where there is none."""
    try:
        return str(json.loads(Path(folder, "publication.json").read_bytes())["uri"]) if folder else ""
    except (OSError, ValueError, KeyError):
        return ""
