"""The files of a run's folder: the reports, the winner, and the link to the latest run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from hone_runtime.contract.proof import EVIDENCE_FILES, GOLDEN, REPORTS
from hone_runtime.contract.registry import Publication
from hone_runtime.errors import HoneError
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import copy_tree
from kedro_hone.core.store.disk import write_file
from kedro_hone.report.evidence import Evidence, find_first_field
from kedro_hone.report.rendering import render_markdown, render_page

_PUBLICATION: Final = "publication.json"


def copy_evidence(files: Path, folder: Path) -> None:
    """Copy the evidence from the store into a run's folder, for the user: the published files are from the store."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*EVIDENCE_FILES, *([GOLDEN] if (files / GOLDEN).is_file() else [])):
        write_file(folder / name, (files / name).read_bytes())


def write_reports(evidence: Evidence, folder: Path, publication: Publication | None = None) -> None:
    """Write the page and the comment into a folder, with the publication of the winner if there is one."""
    for name, render in zip(REPORTS, (render_page, render_markdown), strict=True):
        write_file(folder / name, render(evidence, publication).encode())


def write_publication(publication: Publication, evidence: Evidence, folder: Path) -> None:
    """Write the publication of a run's winner into its folder: as JSON, and in the reports."""
    text = json.dumps(publication.model_dump(mode="json"), indent=2) + "\n"
    write_file(folder / _PUBLICATION, text.encode())
    write_reports(evidence, folder, publication)


def read_publication(folder: Path) -> Publication | None:
    """Return the publication of the winner in a run's folder; None if it was not published.

    Raises:
        HoneError: ``evidence-unreadable``: the file is not a publication.
    """
    path = folder / _PUBLICATION
    if not path.is_file():
        return None
    try:
        return Publication.model_validate_json(path.read_bytes(), extra="ignore")
    except ValidationError as error:
        what = f"Where the run's winner was published cannot be read from {path}."
        why = f"{find_first_field(error)}: {error.errors()[0]['msg']}."
        hint = "Open report.html next to it, or read it with the version of kedro-hone that wrote it."
        raise HoneError("evidence-unreadable", what, why=why, hint=hint) from error


def store_winner(artifact: Artifact, files: Path, folder: Path) -> Path:
    """Put the winner into the run's folder, for ``kedro_hone.load``; it shares its bytes with the store if possible."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "winner"
    if not place.exists():
        partial = folder / f".winner-{os.getpid()}"
        copy_tree(files, partial, share=True)
        write_manifest(partial, artifact)
        partial.rename(place)
    return place


def point_latest(root: Path, folder: Path) -> None:
    """Make ``latest`` point to a run's folder, atomically."""
    temporary = root / f".latest-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(folder, root))
    temporary.replace(root / "latest")
