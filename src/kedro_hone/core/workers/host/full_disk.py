"""Whether a worker's failure may be due to a full disk, whatever the message of its toolchain."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.job import Call, End, Job, StepResult
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.machine.disks import FULL_BYTES, LOW_BYTES, find_low, measure_tree

TRANSFORM = "transform"
"""The function that writes a model."""
LOAD = "load"
"""The function of a session, which writes no model."""


def list_disks(call: Call) -> tuple[str, ...]:
    """Return the folders that a call's worker may write to."""
    return _list_folders(call.written, call.folder)


def check_full_disk(failed: Failed, job: Job, folder: Path, end: End | None = None) -> Failed:
    """Return a failure as one of a full disk if a disk is almost full, or was while the worker ran.

    Toolchains report a full disk in many ways, such as an ``iostream error``, a crash, or a truncated file. The disks
    are those of the step's ``folder``, of the output and of temporary files. A step that may write a model needs as
    much space as its input, since some libraries reserve all of it first. ``end`` is that of its worker, if known.
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
    """Return a result, or the failure if a model was written to a disk that was full meanwhile.

    Some libraries do not check whether writing succeeded: the model may be truncated and still be readable.
    """
    end = result.end
    if call.job.function != TRANSFORM or end.disk_free is None or end.disk_free >= FULL_BYTES:
        return result
    reason = f"the disk of {end.disk} was full: what it wrote may be cut short"
    return call.fail(reason, FailureClass.DISK_FULL)


def _list_folders(job: Job, folder: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (str(folder), job.temporary, job.output))))
