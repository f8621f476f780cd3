"""The only module that starts workers.

``host → guard → worker``: the host is this process, the guard is ``workers/guard/main.py`` with our own python, the
worker is ``workers/inside/main.py`` with the python of the toolchain's environment. A step's folder holds ``job.json``,
``result.json`` and ``log`` and can be run again by hand. See ``docs/concepts/workers.md``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kedro_hone.core.contract.toolchain import Limits, Toolchain
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.digest import digest_code, digest_json
from kedro_hone.core.values.outcome import Failed, FailureClass, Refused, Trespass
from kedro_hone.core.workers.host.guarded import GUARD_SECONDS, Guarded, Program, start_guarded
from kedro_hone.core.workers.host.job import End, Job, StepResult, explain_end, explain_error, fail
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.core.workers.host.verification import watch_tree

WORKER_MAIN = Path(__file__).parents[1] / "inside" / "main.py"
"""What a worker is started with: this file and the folder of its ``job.json``."""

SECRET: Final = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY")
"""Found in the names of variables that no other program is given."""

_PASSED_ON = re.compile(
    r"PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|LD_LIBRARY_PATH|CC|CXX|(CUDA|NVIDIA|ROCR|HIP)_[A-Z0-9_]+|SOURCE_DATE_EPOCH"
)
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "BLIS")
_FIXED: Final = MappingProxyType(
    {
        "PYTHONSAFEPATH": "1",  # no directory of ours on the import path
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # the order of sets of strings must not decide what a toolchain writes
        # By default glibc hands freed memory back to the kernel after each call or not, depending on the layout of the
        # heap, and page faults then cost as much as the model. Kept, every launch is as fast as the luckiest.
        # https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the highest that every glibc takes
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "DO_NOT_TRACK": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
)
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
    try:
        find_changes = watch_tree(Path(job.input.path)) if job.input else tuple
        prepared = _write_job(job, folder)
        try:
            with closing(_start(prepared, python, toolchain, folder=folder, limits=limits)) as guarded:
                end = guarded.wait(limits.seconds + GUARD_SECONDS)
        finally:
            if job.temporary is None:
                shutil.rmtree(str(prepared.temporary), ignore_errors=True)
        changed = find_changes()
    except OSError as error:
        return explain_end(job, End(reason="not-started", detail=str(error)), folder=folder, limits=limits)
    if changed:
        return fail(job, f"changed its input: {', '.join(changed[:5])}", folder=folder, trespass=Trespass.INPUT)
    return _read_outcome(job, end, folder=folder, limits=limits)


def open_session(
    job: Job, *, python: Path, folder: Path, limits: Limits, toolchain: Toolchain | None = None
) -> WorkerSession | Failed:
    """Start a worker that stays, as a session to be closed by the caller; its command ``load`` opens the model.

    Arguments are as for ``call_worker``: the job's ``function`` is not used, the folder receives no ``result.json``,
    and the limit of ``seconds`` is for each command.
    """
    folder = folder.absolute()
    command_end, commands = os.pipe()
    replies, reply_end = os.pipe()
    try:
        prepared, keep = _write_job(job, folder), (command_end, reply_end)
        guarded = _start(prepared, python, toolchain, folder=folder, limits=limits, keep=keep)
    except OSError as error:
        os.close(commands)
        os.close(replies)
        return explain_end(job, End(reason="not-started", detail=str(error)), folder=folder, limits=limits)
    finally:
        os.close(command_end)
        os.close(reply_end)
    return WorkerSession(job, guarded, commands=commands, replies=replies, folder=folder, limits=limits)


def make_environment(
    job: Job, *, toolchain: Toolchain | None = None, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return all variables of a worker, never the host's own, which may hold secrets.

    They are an allow-list applied to those that are inherited, without names that look like secrets; the worker's own
    folders and threads; and the toolchain's, last.
    """
    passed = {name: text for name, text in inherited.items() if _PASSED_ON.fullmatch(name) and not SECRET.search(name)}
    scratch = job.temporary or ""
    return {
        **passed,
        **_FIXED,
        **{f"{library}_NUM_THREADS": str(job.threads) for library in _THREADS},
        "HOME": scratch,
        "TMPDIR": scratch,
        "XDG_CACHE_HOME": f"{scratch}/cache",
        "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
        "TRITON_CACHE_DIR": f"{scratch}/triton",
        **(toolchain.environment if toolchain else {}),
    }


def _write_job(job: Job, folder: Path) -> Job:
    prepared = job.model_copy(update={"temporary": job.temporary or str(folder / "temporary")})
    for path in (str(folder), prepared.temporary, prepared.output):
        if path is not None:
            Path(path).mkdir(parents=True, exist_ok=True)
    for name in ("result.json", "log"):  # of an earlier call
        (folder / name).unlink(missing_ok=True)
    (folder / "job.json").write_text(json.dumps(prepared.model_dump(mode="json"), indent=1), encoding="utf-8")
    return prepared


def _start(
    job: Job, python: Path, toolchain: Toolchain | None, *, folder: Path, limits: Limits, keep: tuple[int, ...] = ()
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
    path = folder / "result.json"
    if end.reason is not None or end.exit != 0 or not path.exists():
        return explain_end(job, end, folder=folder, limits=limits)
    try:
        told = json.loads(path.read_bytes())
        if "error" in told:
            return explain_error(job, told["error"], folder=folder, failure=job.failure)
        result = StepResult(**told, end=end)
        return _read_flags(job, result.notes, folder) or result
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return fail(job, f"the worker's result cannot be read: {str(error).splitlines()[0]}", folder=folder)


def _read_flags(job: Job, notes: Mapping[str, Json], folder: Path) -> Refused | Failed | None:
    """Return what a function says that it did instead of its work."""
    if "refused" in notes:
        slug = {"slug": str(notes["slug"])} if "slug" in notes else {}
        return Refused(by=job.adaptor, reason=str(notes["refused"]), **slug)
    if "nothing_to_do" in notes:
        return Refused(by=job.adaptor, slug="nothing-to-do", reason=str(notes["nothing_to_do"]))
    if "failed" in notes:
        told = notes["failed"]
        return fail(job, str(told["reason"]), folder=folder, failure=FailureClass(told["class"]))
    return None
