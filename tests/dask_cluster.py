"""A Dask cluster on the loopback: real processes of a scheduler and of workers, each with its resources."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import distributed


class DaskCluster:
    """A scheduler, and workers that are started and killed one by one; to be closed.

    Attributes:
        address: The scheduler's.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], python: str = sys.executable) -> None:
        self._python = python
        self._folder, self._variables, self._file = folder, dict(variables), folder / "scheduler.json"
        self._workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--port", "0")
        self.client = distributed.Client(scheduler_file=str(self._file), timeout=60, set_as_default=False)
        self.address = self.client.scheduler.address

    def add(self, name: str, resources: str, **variables: str) -> None:
        """Start a worker of one thread, with resources such as ``build=1 bench=1``; `wait` waits for it."""
        options = ("--name", name, "--nthreads", "1", "--resources", resources)
        place = ("--local-directory", str(self._folder / name))
        self._workers.append(self._start("worker", *options, *place, **variables))

    def wait(self) -> None:
        """Return when all workers are there."""
        self.client.wait_for_workers(len(self._workers), timeout=60)

    def find_pids(self) -> dict[str, int]:
        """The process in which each worker's nodes run, by name; its nanny starts it again when it dies."""
        return dict(self.client.run(lambda dask_worker: (dask_worker.name, os.getpid()), on_error="ignore").values())

    def close(self) -> None:
        """End every process."""
        self.client.close(timeout=5)
        for process in (*self._workers, self.scheduler):
            process.terminate()
        for process in (*self._workers, self.scheduler):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, what: str, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        places = ("--host", "127.0.0.1", "--scheduler-file", str(self._file), "--no-dashboard")
        command = [self._python, "-m", f"distributed.cli.dask_{what}", *places, *options]
        with (self._folder / f"{what}-{len(self._workers)}.log").open("wb") as log:
            environment = {**self._variables, **variables}
            return subprocess.Popen(command, cwd=self._folder, env=environment, stdout=log, stderr=log)
