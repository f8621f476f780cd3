"""What proves a winner: a run's evidence by the digests of its files, and the only value that a registry publishes."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from hone_runtime.errors import HoneError
from hone_runtime.text import hide_secrets
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Value
from hone_runtime.values.decision import Verdict
from hone_runtime.values.digest import digest_file, digest_json
from hone_runtime.values.regular import read_regular

SchemaId = Literal["kedro-hone/evidence/2"]
SCHEMA_ID: Final[SchemaId] = "kedro-hone/evidence/2"
"""The id of the schema of the evidence: another one where a field changed or went."""

EVIDENCE_FOLDER: Final = "evidence"
"""The folder of the evidence in a published version."""
EVIDENCE: Final = "evidence.json"
TIMINGS: Final = "timings.npz"
REPORTS: Final = ("report.html", "report.md")
EVIDENCE_FILES: Final = (EVIDENCE, *REPORTS, TIMINGS)
"""What every publication carries: the evidence, its two reports, and every time that was measured."""
GOLDEN: Final = "golden.json"
"""What a publication may carry besides: rows with the winner's outputs, which ``kedro_hone.load`` compares."""


class EvidenceFolder(Value):
    """The evidence of a run, which is a tree of the store; the run's folder has copies for people.

    Attributes:
        files: ``sha256:…`` of each of ``EVIDENCE_FILES``, as ``report`` wrote them, and of ``GOLDEN`` if there is one.
        decision: The digest of the decision that it is for.
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
        """Return the evidence of a run as it is now in a folder; ``FileNotFoundError`` where a file is missing."""
        names = (*EVIDENCE_FILES, *([GOLDEN] if (folder / GOLDEN).is_file() else []))
        files = {name: digest_file(folder / name) for name in names}
        return cls(run_id=run_id, files=files, decision=decision)

    def check(self, folder: Path) -> None:
        """Compare a folder with what was recorded.

        Raises:
            HoneError: ``evidence-incomplete``: a file is missing there, or is not the one that was recorded.
        """
        for name in dict.fromkeys((*EVIDENCE_FILES, *self.files)):
            if not (folder / name).is_file():
                raise explain_incomplete(self.run_id, f"{name} is missing.")
            if digest_file(folder / name) != self.files.get(name):
                raise explain_incomplete(self.run_id, f"{name} is not the file that the node report wrote.")


@dataclass(frozen=True, kw_only=True)
class ProvenWinner:
    """A winner with the evidence that proves it; there is none without.

    Making one reads every file of the evidence. What a registry is given was therefore complete and unmodified.

    Attributes:
        files: The folder of the winner's files.
        source_uri: The version that was optimized, pinned; the digest is its artifact's.
        folder: Where the files of the evidence are: those of the tree, which nobody writes to.
        companions: The folder of the source's files, where some of them, such as a tokenizer's, go with the winner.
        description: What it is, in Markdown, for the page of a registry that shows such a text; empty for none.

    Raises:
        HoneError: ``evidence-incomplete``: a file is missing or was altered; ``evidence.json`` cannot be read; or it
            proves another verdict than PASS, another winner or another source.
    """

    artifact: Artifact
    files: Path
    source_uri: str
    source_digest: str
    evidence: EvidenceFolder
    folder: Path
    companions: Path | None = None
    description: str = ""

    def __post_init__(self) -> None:
        self.evidence.check(self.folder)
        run = self.evidence.run_id
        try:
            claim = json.loads(read_regular(self.folder / EVIDENCE))
        except (OSError, ValueError, RecursionError) as error:
            raise explain_incomplete(run, f"{EVIDENCE} is no evidence: {error}.") from error
        wanted = {
            ("schema",): SCHEMA_ID,
            ("verdict",): Verdict.PASS.value,
            ("run_id",): run,
            ("source", "uri"): self.source_uri,
            ("source", "digest"): self.source_digest,
            ("winner", "digest"): self.artifact.digest,
        }
        for path, value in wanted.items():
            proven = claim
            for key in path:
                proven = proven.get(key) if isinstance(proven, dict) else None
            if proven != hide_secrets(value, variables={}):  # as the evidence was written
                raise explain_incomplete(run, f"Its {' '.join(path)} is {proven}, and {value} is to be published.")

    def copy_evidence(self, folder: Path) -> None:
        """Copy the evidence into a folder to publish it from there, and check that the copy is what was proved.

        Raises:
            HoneError: ``evidence-incomplete``: a file was removed or altered since this value was made.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.evidence.files:
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)
        self.evidence.check(folder)


def explain_incomplete(run_id: str, why: str, *, hint: str = "") -> HoneError:
    """Return the error for evidence that is missing, was altered, or proves something else (why: one sentence)."""
    what = f"The evidence of the run {run_id} does not prove what is to be published: nothing was registered."
    again = "Write it again with `kedro run --nodes report`, read the report, then `kedro run --pipelines publish`."
    return HoneError("evidence-incomplete", what, why=why, hint=hint or again)
