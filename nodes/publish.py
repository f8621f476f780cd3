"""Publish the winner as a new version of the registry that the source came from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.proof import (
    EVIDENCE,
    EVIDENCE_FILES,
    REPORTS,
    EvidenceFolder,
    ProvenWinner,
    explain_incomplete,
)
from kedro_hone.core.contract.registries import find_registry
from kedro_hone.core.contract.registry import Publication, VersionInfo, make_tags
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.decision import Decision, Verdict
from kedro_hone.report.evidence import Evidence, parse_evidence
from kedro_hone.report.files import write_reports, write_text

logger = open_logger(__name__)

PUBLISHED = "published"
"""The folder inside a run's folder that keeps the reports as they were published, before they name the publication."""


def publish(
    *, setting: Setting, decision: Decision, evidence: Evidence, evidence_folder: EvidenceFolder, version: VersionInfo
) -> tuple[Publication, ...]:
    """Write the winner as a new version, and return where it went; where there is none, leave the registry as it is.

    The evidence may be of an earlier run; what is written about the publication goes to that run.

    Raises:
        HoneError: ``evidence-incomplete``: the evidence is missing, was altered, or proves something else; nothing was
            registered. ``registry-unreachable``.
    """
    recipe, store = setting.recipe, setting.store
    if decision.verdict is not Verdict.PASS or decision.artifact is None or not recipe.publish.enabled:
        return ()
    run = setting.run.model_copy(update={"run_id": evidence_folder.run_id})
    if evidence_folder.decision != decision.digest:
        raise explain_incomplete(run.run_id, "The gates were asked again after it was written.")
    with store.workspace() as copy:
        copy_evidence(run.folder, copy)
        winner = ProvenWinner(
            artifact=decision.artifact,
            files=store.locate(decision.artifact),
            source_uri=version.uri,
            source_digest=setting.source.digest,
            evidence=evidence_folder,
            folder=copy,
        )
        if parse_evidence((copy / EVIDENCE).read_bytes()) != evidence:
            raise explain_incomplete(run.run_id, "The evidence in the catalog is of another run.")
        publication = find_registry(version.uri, project=run.project).publish(
            winner,
            name=recipe.publish.name or version.name,
            tags=make_tags(
                winner,
                recipe=str(evidence.recipe["digest"]),
                speedup=decision.speedup.ratio.estimate if decision.speedup else None,
                data={row.name: row.md5 for row in evidence.data},
            ),
            alias=recipe.publish.alias,
            metrics=find_metrics(decision),
        )
        publication = publication.model_copy(update={"uri": run.relate(publication.uri)})
        keep_reports(copy, run.folder / PUBLISHED)
    write_text(run.folder / "publication.json", json.dumps(publication.model_dump(mode="json"), indent=2) + "\n")
    run.note("publication", uri=publication.uri)
    write_reports(evidence, run.folder, publication)
    logger.info("published %s", publication.uri)
    return (publication,)


def copy_evidence(folder: Path, target: Path) -> None:
    """Copy the evidence files of a run that exist to an empty directory that no other process writes to.

    Reports that were written again after a publication are copied as they were published, so that publishing again is
    the same publication.
    """
    for name in EVIDENCE_FILES:
        if (folder / name).is_file():
            kept = folder / PUBLISHED / name
            shutil.copyfile(kept if kept.is_file() else folder / name, target / name)


def keep_reports(copy: Path, folder: Path) -> None:
    """Keep the reports as they were published, in a folder that is made when it does not exist."""
    folder.mkdir(exist_ok=True)
    for name in REPORTS:
        temporary = folder / f".{name}"
        shutil.copyfile(copy / name, temporary)
        temporary.replace(folder / name)


def find_metrics(decision: Decision) -> dict[str, float]:
    """Return the numbers of the winner that a registry shows next to a model."""
    metrics = {quality.metric: quality.candidate for quality in decision.quality if quality.id == decision.winner}
    if decision.speedup:
        ratio = decision.speedup.ratio
        metrics |= {"speedup": ratio.estimate, "speedup_low": ratio.low, "speedup_high": ratio.high}
    return metrics
