"""A publication in progress: its key, and which process is publishing it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import RECIPE
from kedro_hone.core.machine import processes
from kedro_hone.core.values.digest import digest_json

KEY: Final = "hone.publication"
"""The tag with what ``derive_key`` returns."""
STALE_AFTER_SECONDS: Final = 3600.0
"""A publication from another machine counts as abandoned when it did not change for this long."""


def derive_key(winner: ProvenWinner, *, name: str, tags: Mapping[str, str]) -> str:
    """Return a digest of what makes two calls of ``publish`` the same publication: ``name`` is where the winner goes.

    The evidence is in it, so that a killed publication is completed only by one with the same evidence.
    """
    return digest_json([winner.artifact.digest, name, winner.evidence.files, winner.source_digest, tags.get(RECIPE)])


def name_publisher() -> str:
    """Return ``host:pid:start``, which identifies this process even when its pid is used again."""
    return f"{socket.gethostname()}:{os.getpid()}:{processes.read_start(os.getpid())}"


def is_alive(publisher: str | None, *, changed: float) -> bool:
    """Return whether a publication's publisher (from ``name_publisher``) may still be at work.

    On another machine it may when the publication changed not long ago: ``changed`` is in seconds since the epoch.
    """
    host, pid, start = [*(publisher or "").split(":"), "", ""][:3]
    if host != socket.gethostname():
        return bool(publisher) and time.time() - changed < STALE_AFTER_SECONDS
    return pid.isdigit() and start.isdigit() and processes.is_alive(int(pid), int(start))
