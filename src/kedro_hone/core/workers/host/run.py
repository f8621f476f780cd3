"""The only module that starts workers.

``host → guard → worker``: the host is this process, the guard is ``workers/guard/main.py`` with our own python, the
worker is ``hone_runtime/worker/main.py`` with the python of the toolchain's environment. A step's folder contains
``job.json``, ``result.json`` and ``log``, and the step can be run again by hand. See ``docs/concepts/workers.md``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Final

import hone_runtime
from hone_runtime.contract.catalogue import find_used
from hone_runtime.contract.causes import cut_reason, strip_styles
from hone_runtime.contract.job import Call, End, Job, StepResult
from hone_runtime.contract.toolchain import UNTRACKED, Limits, Toolchain
from hone_runtime.text import SECRET_NAME
from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_code, digest_json
from hone_runtime.values.outcome import Failed, FailureClass, Refused, Trespass
from hone_runtime.values.regular import read_regular
from kedro_hone.core.workers.host import reach
from kedro_hone.core.workers.host.full_disk import check_full_disk, distrust, list_disks
from kedro_hone.core.workers.host.guarded import GUARD_SECONDS, Guarded, Program
from kedro_hone.core.workers.host.replies import parse_object
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.core.workers.host.verification import watch_tree

_RUNTIME = Path(hone_runtime.__file__).parent
WORKER_MAIN = _RUNTIME / "worker" / "main.py"
"""The arguments of a worker: this file and the folder of its ``job.json``."""
IN_WORKERS = ("worker", "sessions", "interfaces", "onnx")
"""The packages of ``hone_runtime`` with code that runs in any worker."""
_OF_SOME: Final = ("conversion", "tuning")
"""The packages that only workers which convert or tune import: no other worker's key depends on them."""
_IMPORTS: Final = {room: re.compile(rb"hone_runtime(\.%b\b|\s+(import|as)\b)" % room.encode()) for room in _OF_SOME}

_PASSED_ON = re.compile(
    r"PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|LD_LIBRARY_PATH|CC|CXX|(CUDA|NVIDIA|ROCR|HIP)_[A-Z0-9_]+|SOURCE_DATE_EPOCH"
)
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "BLIS")
_FIXED: Final = MappingProxyType(
    {
        "PYTHONSAFEPATH": "1",  # no directory of ours on the import path
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # the order of sets of strings must not affect what a toolchain writes
        # By default glibc may return freed memory to the kernel after each call, depending on the layout of the heap,
        # and page faults then cost as much as the model. With retained memory, every launch is as fast as the fastest.
        # https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the highest that every glibc takes
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "DO_NOT_TRACK": "1",
    }
)
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_SHORT = "/hone-tmp"
"""The path of a worker's temporary folder in its private file system. Python's managers and data loaders create sockets
below ``TMPDIR``, and the path of a socket may have at most 107 bytes."""
_LONGEST = 1000
"""The most characters of a failure's reason."""
_JOB_INTERVAL, _SESSION_INTERVAL = 0.025, 0.05  # seconds between two checks; a session may be measured meanwhile


def digest_worker(worker: Path) -> str:
    """Return the digest of the code in a worker file's process: its folder, and our packages that it imports."""
    files = (path for path in worker.parent.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    texts = [path.read_bytes() for path in files]
    rooms = (*IN_WORKERS, *(room for room, line in _IMPORTS.items() if any(map(line.search, texts))))
    return digest_json([digest_code(worker.parent), *(digest_code(_RUNTIME / room) for room in rooms)])


def call_worker(
    job: Job,
    *,
    python: Path,
    toolchain: Toolchain | None,
    folder: Path,
    limits: Limits,
    stopped: Callable[[], bool] | None = None,
) -> StepResult | Refused | Failed:
    """Call one function of a worker file in a process of its own.

    When this returns, no process of the worker is left. Every byte of the job's input is unchanged; otherwise the
    outcome reports the change. ``python`` is the interpreter of the toolchain's environment. The worker gets the
    variables of the toolchain, if any. ``job.json``, ``result.json`` and ``log`` are written to the folder, which is
    made if it does not exist. The guard enforces the limits. If ``stopped`` becomes true, the worker is ended, and the
    failure is ``killed``.
    """
    job = _add_used(job, toolchain)
    call = Call(job, folder.absolute(), limits)
    if fault := _find_bad_option(job, toolchain):
        return call.fail(fault, FailureClass.LOAD)
    try:
        find_changes = watch_tree(Path(job.input.path)) if job.input else tuple
        try:
            with closing(_start(call, python, toolchain, stopped=stopped)) as guarded:
                end = guarded.wait(limits.seconds + GUARD_SECONDS)
        finally:
            call.tidy()
        changed = find_changes()
    except OSError as error:
        return call.explain_end(End(reason="not-started", detail=str(error)))
    if changed:
        return call.fail(f"changed its input: {', '.join(changed[:5])}", trespass=Trespass.INPUT)
    outcome = _read_outcome(call, end)
    if isinstance(outcome, StepResult):
        return distrust(call, outcome)
    return check_full_disk(outcome, job, call.folder, end) if isinstance(outcome, Failed) else outcome


def open_session(
    job: Job,
    *,
    python: Path,
    folder: Path,
    limits: Limits,
    toolchain: Toolchain | None = None,
    stopped: Callable[[], bool] | None = None,
) -> WorkerSession | Failed:
    """Start a long-lived worker as a session, which the caller must close; its command ``load`` opens the model.

    Arguments are as for ``call_worker``: the job's ``function`` is not used, no ``result.json`` is written, and the
    limit of ``seconds`` is for each command.
    """
    job = _add_used(job, toolchain)
    call = Call(job, folder.absolute(), limits)
    if fault := _find_bad_option(job, toolchain):
        return call.fail(fault, FailureClass.LOAD)
    command_end, commands = os.pipe()
    replies, reply_end = os.pipe()
    try:
        guarded = _start(call, python, toolchain, keep=(command_end, reply_end), stopped=stopped)
    except OSError as error:
        os.close(commands)
        os.close(replies)
        return call.explain_end(End(reason="not-started", detail=str(error)))
    finally:
        os.close(command_end)
        os.close(reply_end)
    return WorkerSession(call, guarded, commands=commands, replies=replies)


def make_environment(
    job: Job, *, toolchain: Toolchain | None = None, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return all variables of a worker, without those of the host that may be secrets.

    Inherited are variables on an allow-list, without names that look like secrets. Then follow the worker's folders and
    number of threads, those of the toolchain, and finally the variables in ``UNTRACKED`` that the user has set.
    """
    passed = {
        name: text for name, text in inherited.items() if _PASSED_ON.fullmatch(name) and not SECRET_NAME.search(name)
    }
    scratch = job.temporary or ""
    return {
        **passed,
        **_FIXED,
        **UNTRACKED,
        **{f"{library}_NUM_THREADS": str(job.threads) for library in _THREADS},
        "HOME": scratch,
        "TMPDIR": scratch,
        "XDG_CACHE_HOME": f"{scratch}/cache",
        "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
        "TRITON_CACHE_DIR": f"{scratch}/triton",
        **(toolchain.environment if toolchain else {}),
        **{name: inherited[name] for name in UNTRACKED if name in inherited},
    }


def _add_used(job: Job, toolchain: Toolchain | None) -> Job:
    """Return the job with the packages of the toolchains that its worker imports, whatever the job is."""
    used = find_used(toolchain) if toolchain else ()
    return job.model_copy(update={"uses": tuple(str(worker.parent) for worker in used)}) if used else job


def _find_bad_option(job: Job, toolchain: Toolchain | None) -> str | None:
    return toolchain.find_bad_option(job.input.run_options) if toolchain and job.input else None


def _start(
    call: Call,
    python: Path,
    toolchain: Toolchain | None,
    *,
    keep: tuple[int, ...] = (),
    stopped: Callable[[], bool] | None = None,
) -> Guarded:
    """Write the job and start its worker; with inherited descriptors it is a session's."""
    folder, limits = call.folder, call.limits
    job = call.written
    temporary = str(job.temporary)
    for path in (str(folder), temporary, job.output):
        if path is not None:
            Path(path).mkdir(parents=True, exist_ok=True)
    for left in (folder / "result.json", call.log):  # from an earlier call
        left.unlink(missing_ok=True)
    call.write_job()
    memory = limits.memory_mb << 20
    # A limit against one huge allocation; generous, since runtimes reserve far more addresses than they use. GPU
    # drivers reserve all memory of all devices many times over: no limit suits them.
    addresses = None if any(Path(device).exists() for device in _GPU_DEVICES) else 4 * memory + (64 << 30)
    variables = make_environment(job, toolchain=toolchain)
    python = reach.find_python(python)
    allowed = reach.find_reach(job, python=python, folder=folder, variables=variables)
    return Guarded(
        Program(
            command=[str(python), str(WORKER_MAIN), str(folder), *map(str, keep)],
            environment=variables,
            folder=temporary,
            log=str(call.log),
            log_bytes=limits.log_kb << 10,
            seconds=None if keep else limits.seconds,
            memory_bytes=memory,
            address_bytes=addresses,
            file_bytes=limits.file_bytes,
            processes=limits.processes,
            isolation={
                **allowed,
                "layers": reach.LAYERS,
                "shared_bytes": memory,
                "links": {_SHORT: temporary},
                "variables": {"TMPDIR": _SHORT},
            },
            interval=_SESSION_INTERVAL if keep else _JOB_INTERVAL,
            keep=keep,
            disks=list_disks(call),
        ),
        stopped=stopped,
    )


def _read_outcome(call: Call, end: End) -> StepResult | Refused | Failed:
    path = call.folder / "result.json"
    if end.reason is not None or end.exit != 0 or not os.path.lexists(path):
        return call.explain_end(end)
    try:
        reply = parse_object(read_regular(path))
        if "error" in reply:
            return call.explain_error(reply["error"], call.job.failure)
        result = StepResult(**reply, end=end)
        return _read_flags(call, result.notes) or result
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return call.fail(f"the worker's result cannot be read: {''.join(str(error).splitlines()[:1])}")


def _read_flags(call: Call, notes: Mapping[str, Json]) -> Refused | Failed | None:
    """Return the refusal or failure that a function reported instead of a result."""
    by = call.job.adaptor
    if "refused" in notes:
        slug = {"slug": str(notes["slug"])} if "slug" in notes else {}
        return Refused(by=by, reason=strip_styles(str(notes["refused"])), **slug)
    if "nothing_to_do" in notes:
        return Refused(by=by, slug="nothing-to-do", reason=strip_styles(str(notes["nothing_to_do"])))
    if "failed" in notes:
        return call.fail(cut_reason(str(notes["failed"]["reason"]))[:_LONGEST], FailureClass(notes["failed"]["class"]))
    return None
