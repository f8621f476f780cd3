"""Write down what proves the verdict: evidence.json, report.html and report.md."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from kedro_hone.core.contract import Publication, VersionInfo
from kedro_hone.core.measurement import Confirmation, Decision, RaceResult, Validation
from kedro_hone.core.samples import Reference, Samples
from kedro_hone.core.types import Artifact
from kedro_hone.core.workplace import Workplace
from kedro_hone.learner.manifest import write_manifest
from kedro_hone.nodes.evidence import Findings, gather_evidence
from kedro_hone.nodes.setting import Setting
from kedro_hone.report.evidence import Evidence, dump_evidence
from kedro_hone.report.markdown import render_markdown
from kedro_hone.report.page import render_page

logger = logging.getLogger(__name__)


def report(
    *,
    result: RaceResult,
    confirmation: Confirmation,
    decision: Decision,
    version: VersionInfo,
    source: Artifact,
    reference: Reference,
    samples: Samples,
    parameters: dict[str, Any],
    workplace: Workplace,
    **validations: Validation,
) -> Evidence:
    """Write the evidence and the reports of a run.

    Args:
        result: The race.
        confirmation: The finalists.
        decision: The verdict.
        version: The source's version in its registry.
        source: The source model.
        reference: The source's score on the search split.
        samples: The prepared data.
        parameters: The recipe.
        workplace: Where the run works.
        **validations: What ``validate`` found.

    Returns:
        The evidence, as it stands in ``evidence.json``.
    """
    folder = workplace.folder
    evidence = gather_evidence(
        Findings(
            setting=Setting.of(source, samples, parameters, workplace),
            version=version,
            reference=reference,
            validations=tuple(validations.values()),
            race=result,
            confirmation=confirmation,
            decision=decision,
            winner=keep_winner(decision.artifact, folder) if decision.artifact else None,
        )
    )
    write_reports(evidence, folder)
    point_latest(Path(workplace.root), folder)
    logger.info("report    %s", folder / "report.html")
    return evidence


def write_reports(evidence: Evidence, folder: Path, publication: Publication | None = None) -> None:
    """Write the three files, each of them whole or not at all.

    Args:
        evidence: What is written.
        folder: The run's folder.
        publication: Where the winner went, once it was published.
    """
    texts = {
        "evidence.json": dump_evidence(evidence),
        "report.html": render_page(evidence, publication),
        "report.md": render_markdown(evidence, publication),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        temporary = folder / f".{name}"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(folder / name)


def keep_winner(artifact: Artifact, folder: Path) -> Path:
    """Put the winner into the run's folder, where ``kedro_hone.load`` can open it by its path.

    Args:
        artifact: The winner.
        folder: The run's folder.

    Returns:
        ``winner`` below it; the files share their bytes with the store.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "winner"
    if not place.exists():
        partial = folder / f".winner-{os.getpid()}"
        shutil.copytree(artifact.folder, partial, copy_function=os.link)
        write_manifest(partial, artifact)
        partial.rename(place)
    return place


def point_latest(root: Path, folder: Path) -> None:
    """Let ``latest`` point to a run's folder, without a moment in which it points nowhere."""
    temporary = root / f".latest-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(folder, root))
    temporary.replace(root / "latest")
