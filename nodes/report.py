"""Write down what proves the verdict: evidence.json, report.html, report.md and samples.npz."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kedro_hone.comparing.evidence import Findings, gather_evidence
from kedro_hone.comparing.setting import Setting
from kedro_hone.comparing.timings import read_timings
from kedro_hone.core.contract.proof import EVIDENCE, REPORTS, SAMPLES, EvidenceFolder
from kedro_hone.core.contract.registry import Publication, VersionInfo
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.workplace import Workplace
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Confirmation, Decision, RaceResult
from kedro_hone.core.values.samples import Reference, Samples
from kedro_hone.learner.manifest import write_manifest
from kedro_hone.recipe.schema import Recipe
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
    recipe: Recipe,
    workplace: Workplace,
) -> tuple[Evidence, EvidenceFolder]:
    """Write the evidence and the reports of a run, from values only: what other runs left in their folders is not read.

    Args:
        result: The race, with what ``validate`` found.
        confirmation: The finalists.
        decision: The verdict.
        version: The source's version in its registry.
        source: The source model.
        reference: The source's score on the search split.
        samples: The prepared data.
        recipe: The recipe.
        workplace: Where the run works.

    Returns:
        The evidence, as it is in ``evidence.json``; and where that is, with the digest of each file.

    Raises:
        HoneError: ``evidence-incomplete``: the raw timings of the race or of the confirmation are not in the store.
    """
    folder = workplace.folder
    folder.mkdir(parents=True, exist_ok=True)
    write_timings(folder / SAMPLES, {"race": result.timings, "confirm": confirmation.timings}, workplace)
    evidence = gather_evidence(
        Findings(
            setting=Setting(source=source, samples=samples, recipe=recipe, workplace=workplace),
            version=version,
            reference=reference,
            race=result,
            confirmation=confirmation,
            decision=decision,
            winner=keep_winner(decision.artifact, folder) if decision.artifact else None,
        )
    )
    write_text(folder / EVIDENCE, dump_evidence(evidence))
    write_reports(evidence, folder)
    point_latest(Path(workplace.root), folder)
    logger.info("report    %s", folder / "report.html")
    return evidence, EvidenceFolder.read(workplace.run_id, folder)


def write_timings(path: Path, keys: Mapping[str, str], workplace: Workplace) -> None:
    """Write the raw timings of the race and of the confirmation into one file.

    Args:
        path: The file, ``.npz``.
        keys: The node that measured them, and their key in the store.
        workplace: Where the run works.

    Raises:
        HoneError: ``evidence-incomplete``: the store has lost some of them.
    """
    arrays: dict[str, NDArray[np.int64]] = {}
    for node, key in keys.items():
        known = read_timings(workplace.store, key)
        if known is None:
            raise HoneError(
                "evidence-incomplete",
                f"The raw timings of the node {node} are not in the store.",
                why="They are part of the evidence, and the store was emptied or damaged since they were measured.",
                hint=f"Measure again: `kedro run --pipelines compare --from-nodes {node}`.",
            )
        arrays |= known
    temporary = path.with_name(f".{path.name}")
    np.savez_compressed(temporary, allow_pickle=False, **arrays)
    temporary.replace(path)


def write_reports(evidence: Evidence, folder: Path, publication: Publication | None = None) -> None:
    """Write the page and the summary, each of them whole or not at all.

    Args:
        evidence: What they tell.
        folder: The run's folder.
        publication: Where the winner went, once it was published.
    """
    page, summary = REPORTS
    write_text(folder / page, render_page(evidence, publication))
    write_text(folder / summary, render_markdown(evidence, publication))


def write_text(path: Path, text: str) -> None:
    """Write a file in one go: a reader sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


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
