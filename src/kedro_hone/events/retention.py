"""How long the service stores ended runs: their rows for ever, their logs and results for some days."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path
from typing import Final

from kedro_hone.events.log import log
from kedro_hone.events.queue import Queue

DAY_SECONDS: Final = 86400.0


def remove_old(queue: Queue, folder: Path, *, before: float) -> int:
    """Remove the folders of jobs that ended before some second since 1970, and return how many there were.

    The rows stay: without them a version would be run again. The runs' own folders, with their evidence and reports,
    belong to the project, and stay too.
    """
    old = [folder / str(number) for number in queue.list_ended(before)]
    existing = [one for one in old if one.is_dir()]
    for one in existing:
        shutil.rmtree(one)
    return len(existing)


def clean_up(queue: Queue, folder: Path, *, days: float) -> float:
    """Remove old deliveries, and the folders of jobs that ended some days ago.

    Failures are logged. Returns the seconds until the next time: a day.
    """
    try:
        queue.forget_old()
        if removed := remove_old(queue, folder, before=time.time() - days * DAY_SECONDS):
            log("jobs-removed", count=removed)
    except Exception as error:  # noqa: BLE001 - whatever it is, tomorrow it may be gone
        log("jobs-not-removed", level=logging.ERROR, reason=f"{type(error).__name__}: {error}")
    return DAY_SECONDS
