"""What a publication carries, and where: the tags of a version, its key, and who is publishing it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.machine import processes
from kedro_hone.core.values.digest import digest_json

SOURCE: Final = "hone.source"
"""The URI of the version that was optimized. It marks a winner: a version that carries it is never optimized again."""
SOURCE_DIGEST: Final = "hone.source_digest"
RECIPE: Final = "hone.recipe"
VERDICT: Final = "hone.verdict"
SPEEDUP: Final = "hone.speedup"
COMMIT: Final = "hone.git_commit"
DATA: Final = "hone.data."
"""Prefix: ``hone.data.gate`` holds the digest of the gate split."""
DIGEST: Final = "hone.digest"
"""The artifact's digest."""
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
"""A publisher on another machine is taken for dead when its publication did not move for so long."""


def is_honed(version: VersionInfo) -> bool:
    """Return whether a version is a winner of ours: events must not optimize it again."""
    return SOURCE in version.tags


def make_tags(
    *,
    source: str,
    source_digest: str,
    recipe: str,
    verdict: str,
    speedup: float | None = None,
    data: Mapping[str, str] | None = None,
    commit: str | None = None,
) -> dict[str, str]:
    """Return the tags of a publication.

    Args:
        source: The pinned URI of the source model.
        source_digest: The source artifact's digest.
        recipe: The recipe's digest.
        verdict: The verdict's name.
        speedup: Source time over winner time, the estimate.
        data: The name of each split, and its digest.
        commit: The commit of the project that ran.

    Returns:
        One string for each tag; what is not known has no tag.
    """
    tags = {SOURCE: source, SOURCE_DIGEST: source_digest, RECIPE: recipe, VERDICT: verdict}
    if speedup is not None:
        tags[SPEEDUP] = f"{speedup:.4g}"
    if commit is not None:
        tags[COMMIT] = commit
    return tags | {f"{DATA}{split}": digest for split, digest in (data or {}).items()}


def derive_key(winner: ProvenWinner, *, name: str, tags: Mapping[str, str]) -> str:
    """Return what makes two calls of ``publish`` the same publication.

    The evidence is in it, so that a killed publication is completed only by the very same one.

    Args:
        winner: The winner with what proves it.
        name: Where it goes.
        tags: The publication's tags.

    Returns:
        A digest.
    """
    proof = winner.evidence.files
    return digest_json([winner.artifact.digest, name, proof, tags.get(SOURCE_DIGEST), tags.get(RECIPE)])


def name_publisher() -> str:
    """Return ``host:pid:start``, which names this process among all that ever ran."""
    return f"{socket.gethostname()}:{os.getpid()}:{processes.read_start(os.getpid())}"


def is_alive(publisher: str | None, *, changed: float) -> bool:
    """Return whether a publication's publisher may still be at work.

    Args:
        publisher: What ``name_publisher`` gave when it began, or None.
        changed: When the publication changed last, in seconds since the epoch.

    Returns:
        Whether the process lives; on another machine, whether the publication is young.
    """
    host, pid, start = [*(publisher or "").split(":"), "", ""][:3]
    if host != socket.gethostname():
        return bool(publisher) and time.time() - changed < STALE_AFTER_SECONDS
    return pid.isdigit() and start.isdigit() and processes.is_alive(int(pid), int(start))
