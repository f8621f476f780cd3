"""The only module that starts workers.

``host → guard → worker``: the host is this process, the guard is ``workers/guard/main.py`` with our own python, the
worker is ``workers/inside/main.py`` with the python of the toolchain's environment. A step's folder holds ``job.json``,
``result.json`` and ``log`` and can be run again by hand. See ``docs/concepts/workers.md``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from kedro_hone.core.contract.toolchain import Limits, Toolchain
from kedro_hone.core.values.outcome import Failed, FailureClass, Refused, Trespass
from kedro_hone.core.workers.host.guarded import GUARD_SECONDS, Guarded, start_guarded
from kedro_hone.core.workers.host.job import (
    End,
    Job,
    JobInput,
    Loaded,
    StepResult,
    explain_end,
    explain_error,
    find_failure_class,
)
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.core.workers.host.variables import make_environment
from kedro_hone.core.workers.host.verification import find_changes, record_tree

__all__ = [
    "Job",
    "JobInput",
    "Loaded",
    "StepResult",
    "WorkerSession",
    "call_worker",
    "make_environment",
    "open_session",
]

WORKER_MAIN = Path(__file__).parents[1] / "inside" / "main.py"
"""What a worker is started with: this file and the folder of its ``job.json``."""
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_JOB_INTERVAL, _SESSION_INTERVAL = 0.025, 0.05  # seconds between two looks; a session may be being measured


def call_worker(
    job: Job,
    *,
    python: Path,
    toolchain: Toolchain | None,
    folder: Path,
    limits: Limits,
) -> StepResult | Refused | Failed:
    """Call one function of a worker file in a process of its own.

    Args:
        job: What the worker is to do.
        python: The interpreter of the toolchain's environment.
        toolchain: Whose variables the worker gets, if any.
        folder: Receives ``job.json``, ``result.json`` and ``log``; made when it does not exist.
        limits: The bounds, kept by the guard.

    Returns:
        The result, a refusal or a failure. When this returns, no process of the worker is left, and every byte of the
        job's input is as it was, or the outcome says that it is not.
    """
    try:
        before = record_tree(Path(job.input.path)) if job.input else None
        with _prepare(job, folder) as prepared:
            variables = make_environment(prepared, toolchain=toolchain)
            guarded = _start(prepared, python=python, folder=folder, limits=limits, environment=variables)
            try:
                end = guarded.wait(limits.seconds + GUARD_SECONDS)
            finally:
                guarded.close()
        changed = find_changes(Path(job.input.path), before) if job.input and before else ()
    except OSError as error:
        return _explain_host_error(error, job)
    if changed:
        reason = f"changed its input: {', '.join(changed[:5])}"
        return Failed(
            by=job.adaptor,
            failure=FailureClass.BAD_OUTPUT,
            reason=reason,
            log=str(folder.absolute() / "log"),
            trespass=Trespass.INPUT,
        )
    return _read_outcome(job, end, folder=folder.absolute(), limits=limits)


def open_session(
    job: Job,
    *,
    python: Path,
    folder: Path,
    limits: Limits,
    toolchain: Toolchain | None = None,
) -> WorkerSession:
    """Start a worker that stays, as a session; its command ``load`` opens the model.

    Args:
        job: The model (``input``) and the worker file; ``function`` is not used.
        python: The interpreter of the toolchain's environment.
        folder: Receives ``job.json``, ``log`` and the worker's scratch files.
        limits: The bounds; ``seconds`` is for each command.
        toolchain: Whose variables the worker gets, if any.

    Returns:
        The session, to be closed by the caller (it is a context manager). When the worker cannot be started, its
        commands say so.
    """
    command_end, commands = os.pipe()
    replies, reply_end = os.pipe()
    guarded: Guarded | Failed
    try:
        prepared = _write_job(job, folder)
        variables = make_environment(prepared, toolchain=toolchain)
        guarded = _start(
            prepared, python=python, folder=folder, limits=limits, environment=variables, keep=(command_end, reply_end)
        )
    except OSError as error:
        guarded = _explain_host_error(error, job)
    finally:
        os.close(command_end)
        os.close(reply_end)
    return WorkerSession(job, guarded, commands=commands, replies=replies, folder=folder.absolute(), limits=limits)


@contextlib.contextmanager
def _prepare(job: Job, folder: Path) -> Iterator[Job]:
    prepared = _write_job(job, folder)
    try:
        yield prepared
    finally:
        if job.temporary is None and prepared.temporary is not None:
            shutil.rmtree(prepared.temporary, ignore_errors=True)


def _write_job(job: Job, folder: Path) -> Job:
    folder = folder.absolute()
    prepared = job.model_copy(update={"temporary": job.temporary or str(folder / "temporary")})
    for path in (str(folder), prepared.temporary, prepared.output):
        if path is not None:
            Path(path).mkdir(parents=True, exist_ok=True)
    (folder / "result.json").unlink(missing_ok=True)
    (folder / "job.json").write_text(json.dumps(prepared.model_dump(mode="json"), indent=1), encoding="utf-8")
    return prepared


def _start(
    job: Job,
    *,
    python: Path,
    folder: Path,
    limits: Limits,
    environment: Mapping[str, str],
    keep: tuple[int, ...] = (),
) -> Guarded:
    folder = folder.absolute()
    memory = limits.memory_mb << 20
    return start_guarded(
        [str(python), str(WORKER_MAIN), str(folder), *map(str, keep)],
        environment=environment,
        folder=str(job.temporary),
        log=folder / "log",
        log_bytes=limits.log_kb << 10,
        seconds=None if keep else limits.seconds,
        memory_bytes=memory,
        address_bytes=_bound_addresses(memory),
        interval=_SESSION_INTERVAL if keep else _JOB_INTERVAL,
        keep=keep,
    )


def _bound_addresses(memory: int) -> int | None:
    """A backstop for one huge allocation; generous, since runtimes reserve far more addresses than they touch.

    GPU drivers reserve all memory of all devices many times over: there is no bound that fits them.
    """
    if any(Path(device).exists() for device in _GPU_DEVICES):
        return None
    return 4 * memory + (64 << 30)


def _read_outcome(job: Job, end: End, *, folder: Path, limits: Limits) -> StepResult | Refused | Failed:
    log = folder / "log"
    if end.reason is not None or end.exit != 0 or not (folder / "result.json").exists():
        return explain_end(end, by=job.adaptor, limits=limits, log=log)
    try:
        result = json.loads((folder / "result.json").read_bytes())
        if "error" in result:
            return explain_error(result["error"], by=job.adaptor, failure=find_failure_class(job.stage), log=log)
        outcome = StepResult(
            notes=result["notes"],
            described=result["described"],
            seconds=result["seconds"],
            landlock=result["landlock"],
            peak_memory_bytes=end.peak_memory_bytes,
            left_behind=end.left_behind,
            log_left_out=end.log_left_out,
        )
        return _read_flags(outcome, job, log)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"the worker's result cannot be read: {str(error).splitlines()[0]}"
        return Failed(by=job.adaptor, failure=FailureClass.BAD_OUTPUT, reason=reason, log=str(log))


def _read_flags(result: StepResult, job: Job, log: Path) -> StepResult | Refused | Failed:
    notes = result.notes
    if "refused" in notes:
        slug = {"slug": str(notes["slug"])} if "slug" in notes else {}
        return Refused(by=job.adaptor, reason=str(notes["refused"]), **slug)
    if "nothing_to_do" in notes:
        return Refused(by=job.adaptor, slug="nothing-to-do", reason=str(notes["nothing_to_do"]))
    if "failed" in notes:
        failed = notes["failed"]
        return Failed(by=job.adaptor, failure=FailureClass(failed["class"]), reason=str(failed["reason"]), log=str(log))
    return result


def _explain_host_error(error: OSError, job: Job) -> Failed:
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    failure = FailureClass.DISK_FULL if full else FailureClass.INSTALL
    return Failed(by=job.adaptor, failure=failure, reason=f"the worker cannot be started: {error}")
