"""A publication in progress: its key, its state, and which process is publishing it."""

from __future__ import annotations

import os
import socket
import time
from typing import Final

from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.machine import processes
from kedro_hone.core.values.digest import digest_json

STATE: Final = "hone.state"
PUBLISHING: Final = "publishing"
FINISHED: Final = "finished"
PENDING_ALIAS: Final = "hone.pending_alias"
"""The alias that is still to be moved; removed once it was."""
KEY: Final = "hone.publication"
PUBLISHER: Final = "hone.publisher"
MODEL: Final = "hone.model"
"""On a run: the registered model that it publishes to."""

STALE_AFTER_SECONDS: Final = 3600.0
"""A publication from another machine counts as abandoned when it did not change for this long."""


def derive_key(winner: ProvenWinner, *, name: str, recipe: str | None) -> str:
    """Return a digest of what makes two calls of ``publish`` the same publication: ``name`` is where the winner goes.

    The evidence is in it, so that a killed publication is completed only by one with the same evidence.
    """
    return digest_json([winner.artifact.digest, name, winner.evidence.files, winner.source_digest, recipe])


def name_publisher() -> str:
    """Return ``host:pid:start``, which identifies this process even when its pid is used again."""
    return f"{socket.gethostname()}:{os.getpid()}:{processes.read_start(os.getpid())}"


def is_alive(publisher: str | None, *, changed: float) -> bool:
    """Return whether a publication's publisher may still be at work.

    Args:
        publisher: What ``name_publisher`` returned when it began, or None.
        changed: When the publication changed last, in seconds since the epoch.

    Returns:
        Whether the process lives; on another machine, whether the publication is young.
    """
    host, pid, start = [*(publisher or "").split(":"), "", ""][:3]
    if host != socket.gethostname():
        return bool(publisher) and time.time() - changed < STALE_AFTER_SECONDS
    return pid.isdigit() and start.isdigit() and processes.is_alive(int(pid), int(start))
