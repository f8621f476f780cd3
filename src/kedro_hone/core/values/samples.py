"""The inputs that every candidate gets: made once from the user's data, and the same bytes for all.

Their files are in trees of the store, each under the digest of its value, and are named from there.
"""

from __future__ import annotations

from kedro_hone.core.values.base import Value

CALIBRATION, SEARCH, GATE = "calibration", "search", "gate"
SPLITS = (CALIBRATION, SEARCH, GATE)
"""Given to the toolchains; used to compare candidates; used once, for the finalists and the source."""


class Split(Value):
    """One split, prepared.

    Attributes:
        name: ``calibration``, ``search`` or ``gate``.
        n: Rows.
        rows: Digest over the hashes of its rows.
        feeds: Name of the ``.npz`` with one array for each input of the model, rows first.
        targets: Name of the ``.npz`` with what the metric compares with; empty for the fidelity program.
        path: Where the data came from, inside their repository.
        md5: What DVC recorded of them.
        rev: The pinned revision, and the commit that it names.
        resolved_rev: The commit.
    """

    name: str
    n: int
    rows: str
    feeds: str
    targets: str
    path: str
    md5: str
    rev: str
    resolved_rev: str


class Samples(Value):
    """All splits, and one batch for each shape of the recipe.

    Attributes:
        digest: Over the data, the program and the model's inputs; the key of the tree.
        splits: By name.
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
        metric: The metric's name.
        higher_is_better: Its direction.
        value: The source's value of it.
        kind: How the metric is compared: ``proportion``, ``mean`` or ``bootstrap``.
        n: Rows.
        cold_start_ms: From the start of loading to the first outputs, without the interpreter's start.
        peak_memory_bytes: Resident memory of its worker after the last call.
        doubt: Why the labels may not be the model's; empty where there is no doubt.
        run: The run in which the outputs were computed, this one or an earlier one.
        since: The run that took this baseline last. What was done in it or later was done for the same comparison.
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
