"""Locks of a project's queue: only one service accepts deliveries, and one process at a time runs jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hone_runtime.errors import HoneError
from kedro_hone.core.locks import hold_lock, read_holder

SERVICE, RUNS = "listen", "runs"
"""The names of the locks: of a project's service, and of the process that runs the jobs of its queue."""


@contextmanager
def lock_project(project: Path, what: str) -> Iterator[None]:
    """Acquire the lock ``SERVICE`` or ``RUNS`` of a project.

    Raises:
        HoneError: ``listener-running``: another process has it.
        OSError: The lock's file cannot be made.
    """
    lock = project / "data" / "hone" / f"{what}.lock"
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(lock, purpose=f"kedro hone {what}", waits=False))
        except BlockingIOError as error:
            raise HoneError(
                "listener-running",
                "Another process works on the queue of this project.",
                why=f"It is held by {read_holder(lock) or 'another process'}.",
                hint="End that process, or start this one in another project.",
            ) from error
        yield
