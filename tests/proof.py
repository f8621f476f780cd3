"""Evidence for artifacts that no run made: what a registry's tests publish."""

from __future__ import annotations

import json
from pathlib import Path

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FILES, SCHEMA_ID, EvidenceFolder, ProvenWinner
from hone_runtime.contract.tags import SOURCE
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import MANIFEST, Manifest

SOURCE_URI, SOURCE_DIGEST = "models:/digits/1", "sha256:1"
TAGS = {SOURCE: SOURCE_URI, "hone.source_digest": SOURCE_DIGEST, "hone.recipe": "sha256:2", "hone.verdict": "PASS"}


def write_evidence(folder: Path, artifact: Artifact, *, run_id: str = "1") -> EvidenceFolder:
    """Write the files of a run whose winner is an artifact."""
    folder.mkdir(parents=True)
    for name in EVIDENCE_FILES:
        (folder / name).write_text(f"{name} of {run_id}")
    claim = {
        "schema": SCHEMA_ID,
        "run_id": run_id,
        "verdict": "PASS",
        "source": {"uri": SOURCE_URI, "digest": SOURCE_DIGEST},
        "winner": {"digest": artifact.digest},
    }
    (folder / EVIDENCE).write_text(json.dumps(claim))
    return EvidenceFolder.read(run_id, folder, decision="sha256:d")


def prove(folder: Path, artifact: Artifact, run_id: str = "1", *, files: Path | None = None) -> ProvenWinner:
    """Return an artifact, whose files are in ``sealed`` if nowhere else, with evidence; the same for the same run."""
    place = folder / f"evidence-{run_id}-{artifact.digest[-8:]}"
    evidence = (
        EvidenceFolder.read(run_id, place, decision="sha256:d")
        if place.is_dir()
        else write_evidence(place, artifact, run_id=run_id)
    )
    return ProvenWinner(
        artifact=artifact,
        files=files or folder / "sealed",
        source_uri=SOURCE_URI,
        source_digest=SOURCE_DIGEST,
        evidence=evidence,
        folder=place,
    )


def reseal(folder: Path, **attributes: object) -> None:
    """Write the manifest that fits a changed artifact, as somebody does who can write to the files."""
    said = Manifest.read(folder / MANIFEST).attributes | attributes
    (folder / MANIFEST).unlink()
    Manifest.measure(folder, said).write(folder / MANIFEST)
