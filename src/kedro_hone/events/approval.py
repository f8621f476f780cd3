"""Approve a winner: its evidence is read before the alias moves, since tags say whatever who may write them wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kedro_hone.core.contract.aliases import approve, find_awaited
from kedro_hone.core.contract.proof import EVIDENCE_FOLDER
from kedro_hone.core.contract.registry import Publication, find_registry
from kedro_hone.core.contract.tags import DIGEST
from kedro_hone.learner.evidence import check_evidence
from kedro_hone.learner.loading import find_artifact
from kedro_hone.signing.policy import Policy
from kedro_hone.signing.sign import find_signer
from kedro_hone.signing.verify import verify_version


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
        folder = Path(scratch, "version")
        version, signer = registry.pull(uri, folder), find_signer()
        policy = Policy(keys=(signer.public,)) if signer is not None and signer.public else None
        read = verify_version(folder, policy, name=version.name) if policy else {}
        artifact, files = find_artifact(folder, uri, due=version.tags.get(DIGEST), read=read)
        check_evidence(folder / EVIDENCE_FOLDER, artifact, files, version)
    return approve(registry, uri)
