"""The inputs that every candidate gets: made once from the user's data, and the same bytes for all."""

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
        feeds: ``.npz`` with one array for each input of the model, rows first.
        targets: ``.npz`` with what the metric compares with; empty for the fidelity program.
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
        digest: Over the data, the program and the model's inputs.
        splits: By name.
        shapes: ``.npz`` of the batch that is timed, by the shape's name.
        program: The program's file.
        program_digest: ``sha256:…`` of it.
    """

    digest: str
    splits: dict[str, Split]
    shapes: dict[str, str]
    program: str
    program_digest: str


class Reference(Value):
    """The baseline: the outputs of the source model on the search split, and their quality.

    Attributes:
        outputs: ``.npz`` with one array for each output, in the order of the rows.
        digest: Over the source, its run options and the rows.
        metric: The metric's name.
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
    doubt: str = ""
    run: str = ""
    since: str = ""
