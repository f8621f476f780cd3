"""Checks in an isolated worker, as in a run, whether an adaptor for GPUs works on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.job import Job, StepResult
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.workers.host.run import call_worker

WORKS = "works"


def probe(adaptor: Adaptor, environment: Environment, *, logs: Path) -> str:
    """Return ``works``, or why an adaptor does not work on this machine, by the function ``probe`` of its worker.

    The worker's output is written to a folder below ``logs``, which is reported if it fails.
    """
    toolchain, folder = adaptor.toolchain, logs / f"probe-{adaptor.name}"
    with tempfile.TemporaryDirectory(prefix="kedro-hone-") as place:
        job = Job(
            function="probe",
            worker=str(toolchain.worker),
            adaptor=adaptor.name,
            temporary=place,
        )
        result = call_worker(
            job, python=Path(environment.python), toolchain=toolchain, folder=folder, limits=toolchain.limits
        )
    if not isinstance(result, StepResult):
        return f"{result.reason}; the log is {folder / 'log'}"
    return str(result.notes.get("lacks") or WORKS)
