"""Approve a winner: its evidence is read before the alias moves, since tags say whatever who may write them wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kedro_hone.core.contract.aliases import approve, find_awaited
from kedro_hone.core.contract.registry import Publication, find_registry
from kedro_hone.learner.evidence import check_published
from kedro_hone.signing.policy import Policy
from kedro_hone.signing.sign import find_signer


def approve_winner(uri: str, *, project: Path) -> Publication:
    """Move the alias that a winner waits for to it, if its files and its evidence prove it.

    Where this machine signs what it publishes, the version must be signed by the same key.

    Args:
        uri: The winner.
        project: The root of the Kedro project.

    Raises:
        HoneError: As ``approve``; ``evidence-incomplete``, ``artifact-corrupt`` or ``signature-invalid``.
    """
    registry = find_registry(uri, project=project)
    uri = find_awaited(registry, uri)[0].uri
    with tempfile.TemporaryDirectory(prefix="kedro-hone-") as scratch:
        signer = find_signer()
        policy = Policy(keys=(signer.public,)) if signer is not None and signer.public else None
        check_published(uri, Path(scratch, "version"), registry, policy)
    return approve(registry, uri)
