"""Leaves an orphan process."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Copy the model, and start a daemon that is never stopped."""
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
    return {}
