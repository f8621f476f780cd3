"""The outcome of a job: done, failed or tried again, by how its process ended and what it wrote."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from hone_runtime.errors import ExitCode
from hone_runtime.values.regular import read_regular
from kedro_hone.events.job import Job, State
from kedro_hone.events.log import log
from kedro_hone.events.queue import Queue
from kedro_hone.report.result_file import RunResult, read_result

SKIPPED: Final = 20
"""The exit code of a job if its version is already a winner, by its tags."""
OPTIMIZED: Final = "model-optimized"
"""The error of a run if its model is a winner according to its files."""
TRANSIENT: Final = frozenset(
    {
        *("registry-unreachable", "registry-limited", "registry-full", "store-unreachable", "store-full"),
        *("store-read-only", "data-not-pulled", "cluster-unreachable"),
    }
)
"""Errors of the environment, which may resolve without a change of the job."""
VERDICTS: Final = frozenset({ExitCode.SUCCESS, ExitCode.FAIL, ExitCode.INCONCLUSIVE, ExitCode.DRAFT})
KILLED: Final = frozenset({ExitCode.TERMINATED, ExitCode.INTERRUPTED})
"""The exit codes of a run that was ended by SIGTERM or SIGINT, and ended in order."""
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 3600.0


class End(NamedTuple):
    """How a job's process ended.

    Attributes:
        code: Its exit code, negative for a signal.
        cause: Empty if it ended by itself; otherwise ``cancelled``, ``stopped`` or ``late``.
    """

    code: int
    cause: str = ""


class Bounds(NamedTuple):
    """How long a job is tried.

    Attributes:
        attempts: The number of attempts if it is killed.
        patience: Seconds since its request in which it is started again while a required service does not respond, or a
            disk is full.
        seconds: How long one attempt may take.
    """

    attempts: int
    patience: float
    seconds: float


def judge(queue: Queue, job: Job, end: End, result: RunResult, bounds: Bounds) -> None:
    """Write the outcome of a job into the queue: a publication counts, however its process ended."""
    code, said = end.code, _add_approval(result.message, result)
    published = result.published or read_publication(result.folder)
    if published or code in VERDICTS:
        _finish(queue, job, State.DONE, code, result.model_copy(update={"published": published}), reason=said)
    elif code == SKIPPED or result.slug == OPTIMIZED:
        _finish(queue, job, State.SKIPPED, code, result, reason=said)
    elif end.cause == "stopped":
        queue.put_back(job, seconds=0, reason="The service was stopped.", spent=False)
    elif end.cause == "late":
        _finish(queue, job, State.FAILED, code, result, reason=f"It took longer than {bounds.seconds:.0f} s.")
    elif code == ExitCode.INPUT and result.slug in TRANSIENT:
        try_later(queue, job, said, bounds, code=code)
    elif code < 0 or code in KILLED:
        try_again(queue, job, said or f"It was ended by a signal (exit code {code}).", bounds, code=code)
    else:
        _finish(queue, job, State.FAILED, code, result, reason=said or f"It ended with the exit code {code}.")


def record_orphan(queue: Queue, job: Job, result: RunResult, bounds: Bounds) -> None:
    """Write the outcome of a job that was running when the service died; its process was ended."""
    if published := result.published or read_publication(result.folder):
        result = result.model_copy(update={"published": published})
        reason = _add_approval("The service died when it was published.", result)
        _finish(queue, job, State.DONE, ExitCode.SUCCESS, result, reason=reason)
    elif job.attempts >= bounds.attempts:
        try_again(queue, job, "The service died while it ran.", bounds)
    elif queue.put_back(job, seconds=0, reason="The service died while it ran."):
        log("job-waits", job=job.id, seconds=0, reason="the service died while it ran")


def try_again(queue: Queue, job: Job, reason: str, bounds: Bounds, *, code: int | None = None) -> None:
    """Queue a job again after a pause, or give up after its last attempt."""
    if job.attempts < bounds.attempts:
        _put_back(queue, job, reason)
    else:
        _finish(queue, job, State.FAILED, code, RunResult(), reason=f"{reason} Tried {job.attempts} times.")


def try_later(queue: Queue, job: Job, reason: str, bounds: Bounds, *, code: int | None = None) -> None:
    """Queue a job again after a pause, or give up if it was requested too long ago."""
    waited = max(0.0, time.time() - job.created)  # if a clock was set back, no job loses its patience
    if waited < bounds.patience:
        _put_back(queue, job, reason)
    else:
        _finish(queue, job, State.FAILED, code, RunResult(), reason=f"{reason} Tried for {waited / 3600:.0f} hours.")


def choose_pause(attempts: int) -> float:
    """Return the seconds to wait after some attempts: exponential, with half jitter, an hour at most.

    Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015.
    """
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempts - 1, 16))
    return random.uniform(longest / 2, longest)  # noqa: S311 - no secret


def read_publication(folder: str) -> str:
    """Return the URI in ``publication.json`` of a run's folder; empty if there is none."""
    try:
        return str(json.loads(read_regular(Path(folder, "publication.json")))["uri"]) if folder else ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def read_own_result(folder: Path, job: Job) -> RunResult:
    """Return the result in a job's folder; an empty one if an earlier claim of the job wrote it."""
    try:
        claimed = json.loads(read_regular(folder / "job.json"))["changed"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return RunResult()
    return read_result(folder / "result.json") if claimed == job.changed else RunResult()


def _add_approval(said: str, result: RunResult) -> str:
    """Return a reason that also states the effect of an approval on the winner: true before and after it."""
    if not result.awaits:
        return said
    return f"{said} It was published without the alias {result.awaits}, which an approval moves.".lstrip()


def _put_back(queue: Queue, job: Job, reason: str) -> None:
    seconds = choose_pause(job.attempts)
    if queue.put_back(job, seconds=seconds, reason=reason):
        log("job-waits", job=job.id, seconds=round(seconds), reason=reason)


def _finish(queue: Queue, job: Job, state: State, code: int | None, result: RunResult, *, reason: str) -> None:
    verdict, published = result.verdict, result.published
    if queue.finish(job, state, exit_code=code, verdict=verdict, published=published, reason=reason):
        ended: dict[str, Any] = {"state": state, "code": code, "verdict": verdict, "published": published}
        log("job-ended", job=job.id, uri=job.uri, reason=reason, **ended)
