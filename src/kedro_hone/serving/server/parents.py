"""The end of a process with its parent, which may be killed and cannot end it then."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

from hone_runtime.errors import ExitCode

WITH_PARENT: Final = "--with-parent"
_PR_SET_PDEATHSIG: Final = 1


def end_with_parent() -> None:
    """Let the kernel send SIGTERM to this process when its parent ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before
        os._exit(ExitCode.TERMINATED)
