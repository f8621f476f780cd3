"""The only module that starts workers.

``host → guard → worker``: the host is this process, the guard is ``workers/guard/main.py`` with our own python, the
worker is ``workers/inside/main.py`` with the python of the toolchain's environment. A step's folder holds ``job.json``,
``result.json`` and ``log`` and can be run again by hand. See ``docs/concepts/workers.md``.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import closing
from pathlib import Path

from kedro_hone.core.contract.toolchain import Limits, Toolchain
from kedro_hone.core.values.digest import digest_code, digest_json
from kedro_hone.core.values.outcome import Failed, FailureClass, Refused, Trespass
from kedro_hone.core.workers.host.guarded import GUARD_SECONDS, Guarded, Program, start_guarded
from kedro_hone.core.workers.host.job import End, Job, StepResult, explain_end, explain_error, find_failure_class
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.core.workers.host.variables import make_environment
from kedro_hone.core.workers.host.verification import find_changes, record_tree

WORKER_MAIN = Path(__file__).parents[1] / "inside" / "main.py"
"""What a worker is started with: this file and the folder of its ``job.json``."""
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_JOB_INTERVAL, _SESSION_INTERVAL = 0.025, 0.05  # seconds between two looks; a session may be being measured


def digest_worker(worker: Path) -> str:
    """Return the digest of what runs in the process of a worker file: its folder, and what runs in every worker."""
    return digest_json([digest_code(worker.parent), digest_code(WORKER_MAIN.parent)])


def call_worker(
    job: Job, *, python: Path, toolchain: Toolchain | None, folder: Path, limits: Limits
) -> StepResult | Refused | Failed:
    """Call one function of a worker file in a process of its own.

    When this returns, no process of the worker is left, and every byte of the job's input is as it was, or the outcome
    says that it is not.

    Args:
        job: What the worker is to do.
        python: The interpreter of the toolchain's environment.
        toolchain: Whose variables the worker gets, if any.
        folder: Receives ``job.json``, ``result.json`` and ``log``; made when it does not exist.
        limits: The bounds, kept by the guard.
    """
    folder = folder.absolute()
    model = Path(job.input.path) if job.input else None
    try:
        before = record_tree(model) if model else None
        prepared = _write_job(job, folder)
        try:
            with closing(_start(prepared, python, toolchain, folder=folder, limits=limits)) as guarded:
                end = guarded.wait(limits.seconds + GUARD_SECONDS)
        finally:
            if job.temporary is None:
                shutil.rmtree(str(prepared.temporary), ignore_errors=True)
        changed = find_changes(model, before) if model and before else ()
    except OSError as error:
        return _explain_host_error(error, job)
    if changed:
        failed = _fail(job, f"changed its input: {', '.join(changed[:5])}", folder)
        return failed.model_copy(update={"trespass": Trespass.INPUT})
    return _read_outcome(job, end, folder=folder, limits=limits)


def open_session(
    job: Job, *, python: Path, folder: Path, limits: Limits, toolchain: Toolchain | None = None
) -> WorkerSession:
    """Start a worker that stays, as a session to be closed by the caller; its command ``load`` opens the model.

    Arguments are as for ``call_worker``: the job's ``function`` is not used, the folder receives no ``result.json``,
    and the limit of ``seconds`` is for each command. When the worker cannot be started, the session's commands say so.
    """
    folder = folder.absolute()
    command_end, commands = os.pipe()
    replies, reply_end = os.pipe()
    guarded: Guarded | Failed
    try:
        prepared, keep = _write_job(job, folder), (command_end, reply_end)
        guarded = _start(prepared, python, toolchain, folder=folder, limits=limits, keep=keep)
    except OSError as error:
        guarded = _explain_host_error(error, job)
    finally:
        os.close(command_end)
        os.close(reply_end)
    return WorkerSession(job, guarded, commands=commands, replies=replies, folder=folder, limits=limits)


def _write_job(job: Job, folder: Path) -> Job:
    prepared = job.model_copy(update={"temporary": job.temporary or str(folder / "temporary")})
    for path in (str(folder), prepared.temporary, prepared.output):
        if path is not None:
            Path(path).mkdir(parents=True, exist_ok=True)
    (folder / "result.json").unlink(missing_ok=True)
    (folder / "job.json").write_text(json.dumps(prepared.model_dump(mode="json"), indent=1), encoding="utf-8")
    return prepared


def _start(
    job: Job,
    python: Path,
    toolchain: Toolchain | None,
    *,
    folder: Path,
    limits: Limits,
    keep: tuple[int, ...] = (),
) -> Guarded:
    """Start a worker; one that keeps descriptors is a session's."""
    memory = limits.memory_mb << 20
    # A backstop for one huge allocation; generous, since runtimes reserve far more addresses than they touch.
    # GPU drivers reserve all memory of all devices many times over: there is no bound that fits them.
    addresses = None if any(Path(device).exists() for device in _GPU_DEVICES) else 4 * memory + (64 << 30)
    return start_guarded(
        Program(
            command=[str(python), str(WORKER_MAIN), str(folder), *map(str, keep)],
            environment=make_environment(job, toolchain=toolchain),
            folder=str(job.temporary),
            log=str(folder / "log"),
            log_bytes=limits.log_kb << 10,
            seconds=None if keep else limits.seconds,
            memory_bytes=memory,
            address_bytes=addresses,
            interval=_SESSION_INTERVAL if keep else _JOB_INTERVAL,
            keep=keep,
        )
    )


def _read_outcome(job: Job, end: End, *, folder: Path, limits: Limits) -> StepResult | Refused | Failed:
    log, path = folder / "log", folder / "result.json"
    if end.reason is not None or end.exit != 0 or not path.exists():
        return explain_end(end, by=job.adaptor, limits=limits, log=log)
    try:
        result = json.loads(path.read_bytes())
        if "error" in result:
            return explain_error(result["error"], by=job.adaptor, failure=find_failure_class(job.stage), log=log)
        return _read_flags(StepResult(**result, end=end), job, folder)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return _fail(job, f"the worker's result cannot be read: {str(error).splitlines()[0]}", folder)


def _read_flags(result: StepResult, job: Job, folder: Path) -> StepResult | Refused | Failed:
    notes = result.notes
    if "refused" in notes:
        slug = {"slug": str(notes["slug"])} if "slug" in notes else {}
        return Refused(by=job.adaptor, reason=str(notes["refused"]), **slug)
    if "nothing_to_do" in notes:
        return Refused(by=job.adaptor, slug="nothing-to-do", reason=str(notes["nothing_to_do"]))
    if "failed" in notes:
        return _fail(job, str(notes["failed"]["reason"]), folder, FailureClass(notes["failed"]["class"]))
    return result


def _fail(job: Job, reason: str, folder: Path, failure: FailureClass = FailureClass.BAD_OUTPUT) -> Failed:
    return Failed(by=job.adaptor, failure=failure, reason=reason, log=str(folder / "log"))


def _explain_host_error(error: OSError, job: Job) -> Failed:
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    failure = FailureClass.DISK_FULL if full else FailureClass.INSTALL
    return Failed(by=job.adaptor, failure=failure, reason=f"the worker cannot be started: {error}")
