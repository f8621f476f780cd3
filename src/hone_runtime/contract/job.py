"""The values passed between host and worker: a job, its result, how a worker ended, and the resulting failure."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from hone_runtime.contract.causes import find_cause
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.artifact import Artifact, Shape, Stage, TensorSpec
from hone_runtime.values.base import CPU, Device, Json, Value
from hone_runtime.values.outcome import Failed, FailureClass, Trespass
from hone_runtime.values.regular import open_regular

AbsolutePath = Annotated[str, BeforeValidator(os.path.abspath)]
"""A path as text, made absolute when it is set, since a worker starts in another directory."""


class JobInput(Value):
    """The model that a job processes: its directory, and an artifact without its digest and runtime."""

    path: AbsolutePath
    format: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    device: Device = CPU
    run_options: dict[str, Json] = Field(default_factory=dict)
    static_shapes: tuple[Shape, ...] = ()
    metadata: dict[str, Json] = Field(default_factory=dict)

    @classmethod
    def of(cls, artifact: Artifact, files: Path) -> JobInput:
        """Return the part of an artifact that a worker sees; the artifact's files are in this directory."""
        fields = {name: getattr(artifact, name) for name in cls.model_fields if name != "path"}
        return cls(path=str(files), **fields)


class Job(Value):
    """One call of a function in a worker file. Other keys are passed on unchanged, for the functions of programs.

    Attributes:
        function: The function's name: ``transform``, ``describe``, ``load`` or a program's own.
        adaptor: The adaptor's name in refusals and failures.
        stage: ``convert``, ``compress``, ``compile`` or ``load``; it decides the class of an uncaught exception.
        output: An empty directory to fill; created if it does not exist.
        temporary: A directory for scratch files; if None, one is made and removed after the call.
        calibration: An npz file with one array for each input, rows first.
        training: An npz file of the same form, with the rows for fine-tuning.
        records: A file with the measurements of earlier jobs of the toolchain, one a line; the function may append to
            it.
        checkpoint: A file that a training goes on from if it exists, and writes after each epoch; a later run of an
            unfinished step gets it again.
        takes: The ``opsets`` and the ``ir`` of ONNX that the toolchain accepts; the model is rewritten if it has
            others.
        seconds: The time limit of the function; tuning ends before it.
        conversion: The share of rows in which a converted model may differ; None for the worker's default.
        drop: The allowed drop of the recipe's metric; None for the worker's default.
        program: For a program that the worker calls: ``path`` and ``library`` (arguments of
            ``worker.imports.load_program``), ``options``, ``feeds``, ``targets``, ``source`` and ``outputs``; with a
            training split also ``teacher``, an npz file of the source model's outputs for it.
            ``source`` is an npz file of the source model's outputs for the feeds. These are the targets of a program
            with ``NEEDS_TARGETS = False``. ``metric`` is the recipe's metric, None for the program's own; ``drops``
            are the others by name, each with its ``metric`` and its ``limit``; ``files`` are those of the user's
            metrics, which the sandbox lets the worker read.
        shapes: The shapes that every candidate must serve.
        produces: The format that the adaptor writes.
        trust: The names that the recipe trusts. Absolute directories in it are put on the import path.
        interface: ``pytorch``: a session times the call with tensors, as from ``kedro_hone.load``, if the environment
            has PyTorch. Otherwise arrays are passed.
        uses: Folders of other toolchains' packages that the worker imports.
        reads: Files outside its folders that a session's commands will read.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    function: str
    worker: AbsolutePath
    adaptor: str
    stage: str = "load"
    input: JobInput | None = None
    output: AbsolutePath | None = None
    temporary: AbsolutePath | None = None
    options: dict[str, Json] = Field(default_factory=dict)
    calibration: AbsolutePath | None = None
    training: AbsolutePath | None = None
    records: AbsolutePath | None = None
    checkpoint: AbsolutePath | None = None
    takes: dict[str, Json] | None = None
    seconds: float | None = None
    conversion: float | None = None
    drop: float | None = None
    program: dict[str, Json] | None = None
    shapes: tuple[Shape, ...] = ()
    seed: int = 0
    threads: int = 1
    produces: str | None = None
    trust: tuple[str, ...] = ()
    interface: str | None = None
    uses: tuple[AbsolutePath, ...] = ()
    reads: tuple[AbsolutePath, ...] = ()

    @property
    def worker_folder(self) -> str:
        """The folder of the worker file and its modules."""
        return str(Path(self.worker).parent)

    @property
    def failure(self) -> FailureClass:
        """The failure class of an exception that its function does not catch."""
        return FailureClass(self.stage) if self.stage in {*Stage, FailureClass.LOAD} else FailureClass.CRASH


class End(Value):
    """How a worker ended, as reported by its guard.

    Attributes:
        exit: The exit code, if it exited.
        signal: The signal's number, if a signal ended it.
        reason: Why the guard ended it: ``time-out``, ``out-of-memory``, ``too-many-processes``, ``closed``,
            ``terminated``, ``not-started``; ``guard-lost`` if the guard itself was killed.
        detail: The operating system's message.
        seconds: How long it ran, without the time in which it was paused.
        peak_memory_bytes: The larger of two peaks: of all its processes together as sampled, and of one process as
            the kernel counted; 0 if unknown.
        left_behind: How many of its processes were still alive after it and had to be killed.
        log_left_out: How many bytes of its output were dropped since the log was full.
        disk: Of the folders that it writes to, the one whose disk had the least free space; empty if unknown.
        disk_free: The least free space of that disk, in bytes.
        isolation: The layers that confined it to its folders: ``namespaces``, ``capabilities`` and ``seccomp`` (each
            whether it was in force), and the version of ``landlock`` or 0. Empty if it did not start.
    """

    exit: int | None = None
    signal: int | None = None
    reason: str | None = None
    detail: str = ""
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    left_behind: int = 0
    log_left_out: int = 0
    disk: str = ""
    disk_free: int | None = None
    isolation: dict[str, bool | int] = Field(default_factory=dict)


class StepResult(Value):
    """The result of one call, including the ``notes`` that the function returned.

    Attributes:
        seconds: From loading the worker file to the end of the function, measured in the worker.
        described: For ``transform``: the toolchain's description of the *saved* files; None if it cannot read them.
    """

    notes: dict[str, Json]
    seconds: float
    described: dict[str, Json] | None
    end: End


_KILLS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_NO_MEMORY = re.compile("bad_alloc|out of memory|(can't|cannot) allocate memory|failed to allocate", re.IGNORECASE)
_DISK_FULL = re.compile("no space left on device|disk quota exceeded", re.IGNORECASE)
_LOG_END_BYTES = 4096


@dataclass(frozen=True)
class Call:
    """A job, its folder and its limits: everything needed to explain its outcome."""

    job: Job
    folder: Path
    limits: Limits

    @property
    def log(self) -> Path:
        """The file with the worker's output."""
        return self.folder / "log"

    @property
    def written(self) -> Job:
        """The job as its worker reads it."""
        temporary = self.job.temporary or str(self.folder / "temporary")
        return self.job.model_copy(update={"temporary": temporary})

    def write_job(self) -> None:
        """Write ``job.json``, replacing anything that a worker left under that name.

        Raises:
            OSError: The folder cannot be written to; then there is no ``job.json``.
        """
        path = self.folder / "job.json"
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        text = json.dumps(self.written.model_dump(mode="json"), indent=1)
        try:
            with path.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def tidy(self) -> None:
        """Remove temporary files after the worker's end, and rewrite its job, which the worker could change."""
        with contextlib.suppress(OSError):  # a full disk: the worker's own end reports it
            self.folder.chmod(self.folder.stat().st_mode | stat.S_IRWXU)
            self.write_job()
        if self.job.temporary is None:
            shutil.rmtree(self.folder / "temporary", ignore_errors=True)

    def fail(
        self, reason: str, failure: FailureClass = FailureClass.BAD_OUTPUT, trespass: Trespass | None = None
    ) -> Failed:
        """Return the job's failure, with the log if there is one."""
        log = str(self.log) if os.access(self.log, os.R_OK) else None
        return Failed(by=self.job.adaptor, failure=failure, reason=reason, log=log, trespass=trespass)

    @property
    def _too_large(self) -> str:
        return f"tried to write a file of more than {self.limits.file_bytes >> 20} MiB"

    def explain_end(self, end: End) -> Failed:
        """Return the failure of a worker that ended without a result, with its class and a reason for people."""
        if end.reason is not None:
            limits = self.limits
            unable = FailureClass.DISK_FULL if _DISK_FULL.search(end.detail) else FailureClass.INSTALL
            failure, reason = {
                "time-out": (FailureClass.TIME_OUT, f"ran longer than {limits.seconds:g} seconds"),
                "out-of-memory": (FailureClass.OUT_OF_MEMORY, f"needed more than {limits.memory_mb} MiB of memory"),
                "too-many-processes": (FailureClass.CRASH, f"started more than {limits.processes} processes at once"),
                "not-started": (unable, f"the worker cannot be started: {end.detail}"),
            }.get(end.reason, (FailureClass.KILLED, f"stopped from outside ({end.reason})"))
            return self.fail(reason, failure)
        if end.signal is None:
            return self.fail(f"ended with exit code {end.exit} and no result", FailureClass.CRASH)
        name = {int(one): one.name for one in signal.Signals}.get(end.signal, f"signal {end.signal}")
        if end.signal == signal.SIGXFSZ:
            return self.fail(self._too_large)
        if end.signal in _KILLS:
            return self.fail(f"killed by {name}, not by kedro-hone", FailureClass.KILLED)
        if _NO_MEMORY.search(_read_end(self.log)):
            return self.fail(f"ended by {name} when no more memory could be allocated", FailureClass.OUT_OF_MEMORY)
        return self.fail(f"crashed with {name}", FailureClass.CRASH)

    def explain_error(self, error: Mapping[str, Json], failure: FailureClass) -> Failed:
        """Return the failure for an exception that the worker reports, from its type and the cause in its message.

        The error has ``type``, ``message``, ``errno``, ``trespass`` and ``where``; ``failure`` is the class if these
        give no more specific one.
        """
        kind, message = str(error.get("type", "Exception")), find_cause(str(error.get("message", "")))
        reason, trespass = f"{kind}: {message}" if message else kind, None
        denied = next((one for one in Trespass if one == error.get("trespass")), None)
        if error.get("errno") in {errno.ENOSPC, errno.EDQUOT} or _DISK_FULL.search(message):
            failure = FailureClass.DISK_FULL
        elif error.get("errno") == errno.EFBIG:
            failure, reason = FailureClass.BAD_OUTPUT, self._too_large
        elif kind == "MemoryError" or _NO_MEMORY.search(message):
            failure = FailureClass.OUT_OF_MEMORY
        elif kind in {"ImportError", "ModuleNotFoundError"}:
            failure = FailureClass.INSTALL
        elif denied is not None:
            trespass = denied
            failure, reason = FailureClass.BAD_OUTPUT, f"tried to write outside its folders: {reason}"
        elif error.get("where") == "describe":
            failure, reason = FailureClass.BAD_OUTPUT, f"the saved files cannot be read back: {reason}"
        return self.fail(reason[:1000], failure, trespass)


def _read_end(log: Path) -> str:
    try:
        with open_regular(log) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _LOG_END_BYTES))
            return stream.read(_LOG_END_BYTES).decode(errors="replace")
    except (OSError, ValueError):  # without a log there is no text
        return ""
