"""The proof of a winner: the digests of a run's evidence files, and the only value that a registry publishes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from hone_runtime.errors import HoneError
from hone_runtime.text import hide_secrets
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Value
from hone_runtime.values.decision import Verdict
from hone_runtime.values.digest import digest_file, digest_json, digest_tree
from hone_runtime.values.forms import IMAGE, WinnerForm
from hone_runtime.values.regular import read_regular

SchemaId = Literal["kedro-hone/evidence/2"]
SCHEMA_ID: Final[SchemaId] = "kedro-hone/evidence/2"
"""The id of the evidence's schema; it changes whenever a field changes or is removed."""

EVIDENCE_FOLDER: Final = "evidence"
"""The folder of the evidence in a published version."""
EVIDENCE: Final = "evidence.json"
TIMINGS: Final = "timings.npz"
REPORTS: Final = ("report.html", "report.md")
EVIDENCE_FILES: Final = (EVIDENCE, *REPORTS, TIMINGS)
"""The files of every publication: the evidence, its two reports, and all measured times."""
GOLDEN: Final = "golden.json"
"""An optional file of a publication: rows with the winner's outputs, which ``kedro_hone.load`` compares."""
_FORMS: Final = TypeAdapter(tuple[WinnerForm, ...])


class EvidenceFolder(Value):
    """The evidence of a run, stored as a tree; the run's folder has copies for people.

    Attributes:
        files: ``sha256:…`` of each of ``EVIDENCE_FILES``, as ``report`` wrote them, and of ``GOLDEN`` if it exists.
        decision: The digest of the decision that the evidence supports.
    """

    run_id: str
    files: dict[str, str]
    decision: str

    @property
    def digest(self) -> str:
        """``sha256:…`` of the files: the key of the tree."""
        return digest_json(self.files)

    @classmethod
    def read(cls, run_id: str, folder: Path, *, decision: str) -> EvidenceFolder:
        """Return the evidence of a run from a folder as it is now; ``FileNotFoundError`` if a file is missing."""
        names = (*EVIDENCE_FILES, *([GOLDEN] if (folder / GOLDEN).is_file() else []))
        files = {name: digest_file(folder / name) for name in names}
        return cls(run_id=run_id, files=files, decision=decision)

    def check(self, folder: Path) -> None:
        """Compare a folder with the recorded digests.

        Raises:
            HoneError: ``evidence-incomplete``: a file is missing, or differs from the recorded one.
        """
        for name in dict.fromkeys((*EVIDENCE_FILES, *self.files)):
            if not (folder / name).is_file():
                raise explain_incomplete(self.run_id, f"{name} is missing.")
            if digest_file(folder / name) != self.files.get(name):
                raise explain_incomplete(self.run_id, f"{name} is not the file that the node report wrote.")


@dataclass(frozen=True, kw_only=True)
class ProvenWinner:
    """A winner with the evidence that proves it. No winner exists without evidence.

    The constructor reads every evidence file. A registry therefore gets complete and unmodified evidence only.

    Attributes:
        files: The folder of the winner's files.
        source_uri: The version that was optimized, pinned; its digest is the artifact's.
        folder: The folder of the evidence files, in the store's tree, which is never written to.
        companions: The folder of the source's files, if some of them, such as a tokenizer's, are published with the
            winner.
        description: A description in Markdown, for registries that show one; empty for none.
        forms: The folder of each other form of the winner that is published with it, by the form's name.

    Raises:
        HoneError: ``evidence-incomplete``: a file is missing or was altered; ``evidence.json`` cannot be read; or it
            is for another verdict than PASS, another winner, another source, or other forms.
    """

    artifact: Artifact
    files: Path
    source_uri: str
    source_digest: str
    evidence: EvidenceFolder
    folder: Path
    companions: Path | None = None
    description: str = ""
    forms: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.evidence.check(self.folder)
        run = self.evidence.run_id
        try:
            claim = json.loads(read_regular(self.folder / EVIDENCE))
        except (OSError, ValueError, RecursionError) as error:
            raise explain_incomplete(run, f"{EVIDENCE} is not valid evidence: {error}.") from error
        wanted = {
            ("schema",): SCHEMA_ID,
            ("verdict",): Verdict.PASS.value,
            ("run_id",): run,
            ("source", "uri"): self.source_uri,
            ("source", "digest"): self.source_digest,
            ("winner", "digest"): self.artifact.digest,
        }
        self._check_forms(claim)
        for path, value in wanted.items():
            proven = claim
            for key in path:
                proven = proven.get(key) if isinstance(proven, dict) else None
            if proven != hide_secrets(value, variables={}):  # in the form in which the evidence was written
                raise explain_incomplete(run, f"Its {' '.join(path)} is {proven}, and {value} is to be published.")

    def _check_forms(self, claim: Any) -> None:
        """Compare the folders of other forms with the digests in the evidence; an image is in another registry."""
        try:
            listed = _FORMS.validate_python(claim.get("forms", ()) if isinstance(claim, dict) else (), extra="ignore")
        except ValidationError as error:
            raise explain_incomplete(self.evidence.run_id, f"Its other forms cannot be read: {error}.") from error
        proven = {one.form: one.digest for one in listed if one.digest and one.form != IMAGE}
        found = {name: digest_tree(folder) for name, folder in self.forms.items()}
        if found != proven:
            why = f"Its other forms are {found or 'absent'}, and the evidence has {proven or 'none'}."
            raise explain_incomplete(self.evidence.run_id, why)

    def copy_evidence(self, folder: Path) -> None:
        """Copy the evidence into a folder to publish it from there, and check the copy against the recorded digests.

        Raises:
            HoneError: ``evidence-incomplete``: a file was removed or altered since this value was made.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.evidence.files:
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)
        self.evidence.check(folder)


def explain_incomplete(run_id: str, why: str, *, hint: str = "") -> HoneError:
    """Return the error for evidence that is missing, altered, or for something else (``why``: one sentence)."""
    what = (
        f"The evidence of the run {run_id} does not prove the winner that was to be published: nothing was registered."
    )
    again = (
        "Write it again by `kedro-hone run --nodes gate.report`. Read the report, then publish: `python -m "
        "kedro_hone run --pipelines publish`."
    )
    return HoneError("evidence-incomplete", what, why=why, hint=hint or again)
