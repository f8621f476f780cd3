"""Runs of the queue: one process of ``kedro run`` for each job, with a time limit."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from kedro_hone.core.machine.processes import identify_process
from kedro_hone.core.store.disk import write_file
from kedro_hone.events.exclusive import RUNS, lock_project
from kedro_hone.events.groups import end_group, end_process, is_process
from kedro_hone.events.job import HandOver, Job, State
from kedro_hone.events.log import log
from kedro_hone.events.outcomes import KILLED, Bounds, End, judge, read_own_result, record_orphan, try_later
from kedro_hone.events.queue import Queue
from kedro_hone.report.progress_file import NAME as PROGRESS
from kedro_hone.report.result_file import VARIABLE, read_result

_POLL_SECONDS: Final = 0.5


class Runner:
    """Starts the jobs of the queue in threads, one for each place on a device.

    A lock allows one runner at a time to work on a queue. So jobs that are running at its start were left by a runner
    that died: they are ended and settled. Until the runner has the lock, jobs wait; the queue accepts new ones
    meanwhile.

    Args:
        queue: The queue.
        project: The root of the Kedro project.
        devices: The most simultaneous jobs on each device.
        bounds: The limits of a job's attempts.
        hidden: The names of variables that are not passed to runs: those of the service's secrets.
        for_dispatch: The variables that are only passed to jobs that are handed over.
        command: Returns the command that runs the job of a folder.
        rule: Start only the jobs of this rule; None for all rules.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        project: Path,
        devices: dict[str, int],
        bounds: Bounds,
        hidden: Collection[str] = (),
        for_dispatch: Mapping[str, str] | None = None,
        command: Callable[[Path], list[str]] | None = None,
        rule: str | None = None,
    ) -> None:
        self._queue, self._project, self._devices = queue, project, devices
        self._bounds, self._hidden = bounds, frozenset(hidden)
        self._command, self._for_dispatch = command or build_command, dict(for_dispatch or {})
        self._rule = rule
        self._stopping, self._work = threading.Event(), threading.Condition()
        self._threads: list[threading.Thread] = []
        self._logged = ("", "")

    def start(self) -> None:
        """Start to work, once no other runner works on the queue."""
        self._threads.append(threading.Thread(target=self._work_until_stopped, name="hone-runner"))
        self._threads[0].start()

    def _work_until_stopped(self) -> None:
        """Recover jobs that an earlier runner left running, and serve the devices, with the lock."""
        with ExitStack() as held:
            for first in (lambda: held.enter_context(lock_project(self._project, RUNS)), self._recover_orphans):
                if not self._retry(first):
                    return
            for device, count in self._devices.items():
                for _ in range(count):
                    thread = threading.Thread(target=self._serve, args=(device,), name=f"hone-{device}")
                    thread.start()
                    self._threads.append(thread)
            for thread in self._threads[1:]:
                thread.join()

    def _recover_orphans(self) -> None:
        """End the processes that a dead runner left; queue their jobs again unless they were done."""
        if self._rule is None and (unknown := sorted(self._queue.list_waiting() - self._devices.keys())):
            log("devices-unknown", level=logging.WARNING, reason=f"jobs wait for {unknown}, which listen.yml lacks")
        for number, process, job in self._queue.list_left():
            if is_process(process):
                end_process(process)
            if job is None:
                self._queue.fail_unreadable(number)
            elif job.state is State.RUNNING:
                record_orphan(self._queue, job, read_own_result(self.find_folder(number), job), self._bounds)

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The threads that were started."""
        return tuple(self._threads)

    def wake(self) -> None:
        """Look for work at once."""
        with self._work:
            self._work.notify_all()

    def stop(self) -> None:
        """End running jobs, queue them again, and return when all have ended."""
        self._stopping.set()
        self.wake()
        for thread in self._threads[:1]:
            thread.join()  # it waits for the others

    def find_folder(self, number: int) -> Path:
        """Return the folder of a job: ``job.json``, ``log``, ``result.json``, ``progress.json``."""
        return self._project / "data" / "hone" / "jobs" / str(number)

    def _serve(self, device: str) -> None:
        while not self._stopping.is_set():
            if (job := self._claim(device)) is None:
                with self._work:
                    self._work.wait(_POLL_SECONDS * 2)
                continue
            try:
                self._run(job)
            except Exception as error:  # noqa: BLE001 - the device must be served on; a full disk is the usual reason
                reason = f"{type(error).__name__}: {error}"
                log("job-not-started", level=logging.ERROR, job=job.id, reason=reason)
                with suppress(HoneError):
                    try_later(self._queue, job, f"It could not be started, or not be watched: {reason}", self._bounds)
                self._stopping.wait(_POLL_SECONDS * 10)

    def _claim(self, device: str) -> Job | None:
        try:
            job = self._queue.claim(device, at_most=self._devices[device], rule=self._rule)
        except Exception as error:  # noqa: BLE001 - the device must be served on
            self._log_once("queue-broken", error)
            return None
        self._logged = ("", "")
        return job

    def _run(self, job: Job) -> None:
        folder = self.find_folder(job.id)
        folder.mkdir(parents=True, exist_ok=True)
        result = folder / "result.json"
        for old in (result, folder / PROGRESS):
            old.unlink(missing_ok=True)
        write_file(folder / "job.json", job.model_dump_json(include={"id", "uri", "task", "changed"}).encode())
        kept = {name: value for name, value in os.environ.items() if name not in self._hidden}
        kept |= self._for_dispatch if isinstance(job.task, HandOver) else {}
        with (folder / "log").open("ab") as text:
            if text.tell():  # from an earlier attempt
                text.write(f"\n--- started again, attempt {job.attempts} ---\n".encode())
                text.flush()
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
            self._queue.note_process(job.id, identify_process(process.pid))
        if process.stdin:  # the job waits for this line, so that every running process is recorded
            with suppress(BrokenPipeError), process.stdin as given:
                given.write(b"go\n")
        log("job-started", job=job.id, uri=job.uri, rule=job.rule, attempt=job.attempts)
        try:
            end = self._wait(job, process)
        except BaseException:  # the job is put back, and must not run twice
            end_group(process.pid, process.poll)
            raise
        self._retry(lambda: judge(self._queue, job, end, read_result(result), self._bounds))

    def _wait(self, job: Job, process: subprocess.Popen[bytes]) -> End:
        """Return how the process ended; end it if it is cancelled, is late, or the service stops."""
        deadline = time.monotonic() + self._bounds.seconds
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
        ended = process.returncode in KILLED or process.returncode < 0
        return End(process.returncode, "stopped" if ended and self._stopping.is_set() else "")

    def _is_cancelled(self, job: Job) -> bool:
        try:
            now = self._queue.find(job.id)
        except HoneError as error:  # the run continues, and its end is written once the queue is writable
            self._log_once("queue-broken", error)
            return False
        return now is None or now.state is not State.RUNNING or now.changed != job.changed

    def _retry(self, call: Callable[[], object]) -> bool:
        """Call a function until it raises nothing, such as one that writes an outcome; False if the service stops."""
        while True:
            try:
                call()
            except (HoneError, OSError) as error:
                self._log_once(getattr(error, "slug", "queue-broken"), error)
                if self._stopping.wait(_POLL_SECONDS * 10):
                    return False
            else:
                return True

    def _log_once(self, event: str, error: Exception) -> None:
        """Log an error, unless it was logged since the queue last worked: it may be the same for hours."""
        reason = getattr(error, "why", "") or str(error)
        if (event, reason) != self._logged:
            log(event, level=logging.ERROR, reason=reason)
        self._logged = event, reason


def build_command(folder: Path) -> list[str]:
    """Return the command that runs the job of a folder."""
    return [sys.executable, "-m", "kedro_hone", "hone", "job", str(folder)]
