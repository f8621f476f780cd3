"""Groups of processes: a run with all its child processes, which the service ends together."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kedro_hone.core.machine.processes import may_be_alive

_GRACE_SECONDS: Final = 30.0
"""How long a run may take to end after SIGTERM: it ends its workers, and releases its locks."""


def is_process(name: str) -> bool:
    """Return whether the process of a name runs on this machine.

    A process of another machine does not count: its number may be that of any process here. Nor does a process that has
    ended but for which its parent, such as a container's first process, does not wait.
    """
    return name.partition(":")[0] == socket.gethostname() and may_be_alive(name, changed=0)


def end_group(group: int, poll: Callable[[], int | None]) -> None:
    """End the processes of a group by SIGTERM, and kill those that are still there after a while.

    Args:
        group: Its number, which is that of its first process.
        poll: Returns None as long as the first process runs.
    """
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        while poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(group, signal.SIGKILL)


def end_process(name: str) -> None:
    """End the group of a process of this machine, as ``is_process`` found it."""
    end_group(int(name.split(":")[1]), lambda: None if is_process(name) else 0)
