"""The user's data, and the inputs that every candidate gets: made once from them, and the same bytes for all.

Their files are in trees of the store, each under the digest of its value, and are named from there.
"""

from __future__ import annotations

from kedro_hone.core.values.base import Value

CALIBRATION, SEARCH, GATE = "calibration", "search", "gate"
SPLITS = (CALIBRATION, SEARCH, GATE)
"""Given to the toolchains; used to compare candidates; used once, for the finalists and the source."""


class TrackedFile(Value):
    """A file or directory that DVC tracks, at a pinned git revision, as a verified copy on this machine.

    Attributes:
        path: The copy, absolute and read-only.
        source: Its path in its repository.
        repo: The repository as the catalog names it: a folder or the URL of a git repository.
        rev: The revision as the catalog names it.
        resolved_rev: The commit that the revision names.
        md5: What DVC recorded of the content; it ends in ``.dir`` for a directory.
    """

    path: str
    source: str
    repo: str
    rev: str
    resolved_rev: str
    md5: str


class Split(Value):
    """One split of the user's data, prepared.

    Attributes:
        name: ``calibration``, ``search`` or ``gate``.
        n: The number of rows.
        path: The tracked path, in its repository.
        md5: The content's hash, as DVC knows it.
        rev: The commit that it was read at.
    """

    name: str
    n: int
    path: str
    md5: str
    rev: str

    @property
    def feeds(self) -> str:
        """Name of the ``.npz`` with one array for each input of the model, rows first."""
        return f"{self.name}/feeds.npz"

    @property
    def targets(self) -> str:
        """Name of the ``.npz`` with what the metric compares with; without arrays for the fidelity program."""
        return f"{self.name}/targets.npz"


class Samples(Value):
    """All splits by name, and one batch for each shape of the recipe.

    Attributes:
        digest: Over the data, the program and the model's inputs; the key of the tree.
        shapes: Name of the ``.npz`` of the batch that is timed, by the shape's name.
        program: Name of the program's file: in the tree, or in the library of built-in programs.
        program_digest: ``sha256:…`` of all its code, checked before it is run again.
    """

    digest: str
    splits: dict[str, Split]
    shapes: dict[str, str]
    program: str
    program_digest: str


class Reference(Value):
    """The baseline: the outputs of the source model on the search split, and their quality.

    Attributes:
        outputs: Name of the ``.npz`` with one array for each output, in the order of the rows.
        digest: Over the source, its run options and the rows; the key of the tree.
        higher_is_better: The metric's direction.
        value: The source's value of the metric.
        kind: How the metric is compared: ``proportion``, ``mean`` or ``bootstrap``.
        cold_start_ms: From the start of loading to the first outputs, without the interpreter's start.
        peak_memory_bytes: Resident memory of its worker after the last call.
        doubt: Why the labels may not be the model's; empty where there is no doubt.
        run: The run in which the outputs were computed, this one or an earlier one.
        since: The run that took this baseline last. What was done in it or later was done for the same comparison.
        subject: ``Setting.scored`` of what it was taken for. A node that is given one of another subject refuses it.
    """

    outputs: str
    digest: str
    metric: str
    value: float
    kind: str
    n: int
    cold_start_ms: float
    peak_memory_bytes: int
    higher_is_better: bool = True
    doubt: str = ""
    run: str = ""
    since: str = ""
    subject: str = ""
