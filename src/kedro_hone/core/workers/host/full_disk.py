"""Whether a worker's failure may be for the lack of room on a disk, whatever its toolchain says of it."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.job import Call, End, Job, StepResult
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.machine.disks import FULL_BYTES, LOW_BYTES, find_low, measure_tree

TRANSFORM = "transform"
"""The function that writes a model."""
LOAD = "load"
"""The function of a session, which writes none."""


def list_disks(call: Call) -> tuple[str, ...]:
    """Return the folders that a call's worker may write to."""
    return _list_folders(call.written, call.folder)


def doubt(failed: Failed, job: Job, folder: Path, end: End | None = None) -> Failed:
    """Return a failure as one of a full disk where a disk had next to nothing left, now or while the worker ran.

    Toolchains report that in many ways, such as an ``iostream error``, a crash, or a file that is cut short. The disks
    are those of the step's ``folder``, of the output and of temporary files. A step that may write a model needs as
    much room as its input takes, since some libraries ask for all of it first. ``end`` is its worker's, if known.
    """
    if failed.failure.transient or failed.trespass is not None:
        return failed
    least = max(LOW_BYTES, measure_tree(job.input.path) if job.input and job.function != LOAD else 0)
    low = find_low(_list_folders(job, folder), least=least)
    if end and end.disk_free is not None and end.disk_free < least:
        low = end.disk, end.disk_free
    if low is None:
        return failed
    reason = f"the disk of {low[0]} had {low[1] >> 10} KiB left: {failed.reason}"
    return failed.model_copy(update={"failure": FailureClass.DISK_FULL, "reason": reason[:1000]})


def distrust(call: Call, result: StepResult) -> StepResult | Failed:
    """Return a result, or the failure where it wrote a model to a disk that was full meanwhile.

    Some libraries do not look at what writing returns: the model may be cut short, and be read all the same.
    """
    end = result.end
    if call.job.function != TRANSFORM or end.disk_free is None or end.disk_free >= FULL_BYTES:
        return result
    reason = f"the disk of {end.disk} was full: what it wrote may be cut short"
    return call.fail(reason, FailureClass.DISK_FULL)


def _list_folders(job: Job, folder: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (str(folder), job.temporary, job.output))))
