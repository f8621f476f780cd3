"""The files of a run's folder: the reports, the winner, and the link to the latest run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kedro_hone.core.contract.proof import REPORTS
from kedro_hone.core.contract.registry import Publication
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.learner.manifest import write_manifest
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.markdown import render_markdown
from kedro_hone.report.page import render_page


def write_reports(evidence: Evidence, folder: Path, publication: Publication | None = None) -> None:
    """Write the page and the summary into the run's folder, with where the winner went, once it was published."""
    for name, render in zip(REPORTS, (render_page, render_markdown), strict=True):
        write_text(folder / name, render(evidence, publication))


def write_text(path: Path, text: str) -> None:
    """Write a file in one go: a reader sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def keep_winner(artifact: Artifact, files: Path, folder: Path) -> Path:
    """Put the winner into the run's folder, where ``kedro_hone.load`` can open it; return ``winner`` below it.

    Its files are those of a folder of the store, and share their bytes with it where the file system can.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "winner"
    if not place.exists():
        partial = folder / f".winner-{os.getpid()}"
        shutil.copytree(files, partial, copy_function=_link_or_copy)
        write_manifest(partial, artifact)
        partial.rename(place)
    return place


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # the store is on another disk, or belongs to another user
        shutil.copy(source, target)


def point_latest(root: Path, folder: Path) -> None:
    """Let ``latest`` point to a run's folder, without a moment in which it points nowhere."""
    temporary = root / f".latest-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(folder, root))
    temporary.replace(root / "latest")
