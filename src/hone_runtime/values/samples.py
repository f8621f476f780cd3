"""The user's data, and the inputs for every candidate: made once from the data, with the same bytes for all.

Their files are in trees of the store, each under the digest of its value; the values refer to them by name.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from hone_runtime.values.base import Derived, Value
from hone_runtime.values.digest import digest_json
from hone_runtime.values.slices import Slices

CALIBRATION, SEARCH, GATE, TRAINING = "calibration", "search", "gate", "training"
SPLITS = (CALIBRATION, SEARCH, GATE)
"""In this order: passed to the toolchains; used to compare candidates; used once, for the finalists and the source.

There is a fourth split for fine-tuning, ``training``, if an adaptor of the recipe has ``Need.TRAINING_DATA``."""
DRAWN = "hone_drawn"
"""The array that marks an ``.npz`` file of inputs drawn at random: whatever reads it, nothing is proved on them."""


NOT_VERSIONED = "not versioned: pinned by"


class TrackedFile(Value):
    """A file or directory as a verified copy on this machine.

    DVC tracks it, at a pinned git revision; or nothing does, and the digest of the content is all that pins it.
    """

    path: str = Field(description="The copy, absolute and read-only.")
    source: str = Field(description="Its path in its repository; without one in the project, or its URL.")
    repo: str = Field("", description="The repository as the catalog names it: a folder or the URL of a repository.")
    rev: str = Field("", description="The revision as the catalog names it.")
    resolved_rev: str = Field("", description="The commit that the revision names.")
    md5: str = Field("", description="What DVC recorded of the content; it ends in `.dir` for a directory.")
    sha256: str = Field("", description="`sha256:…` of the content, where nothing versions it; otherwise empty.")
    drawn: bool = Field(default=False, description="Whether its rows were drawn at random, since there are no data.")

    @model_validator(mode="after")
    def _check_pinned(self) -> Self:
        if bool(self.md5) == bool(self.sha256):
            raise ValueError("data are pinned either by DVC's md5, or by a sha256")
        return self

    @property
    def content(self) -> str:
        """The digest of the content, by DVC or by this program."""
        return self.md5 or self.sha256


class Split(Value):
    """One split of the user's data, prepared."""

    name: str = Field(description="`calibration`, `search`, `gate` or `training`.")
    n: int = Field(description="The number of rows.")
    path: str = Field(description="The tracked path, in its repository; where nothing versions it, in the project.")
    md5: str = Field(description="The content's hash, as DVC knows it; empty where nothing versions it.")
    rev: str = Field(description="The commit that it was read at; empty where nothing versions it.")
    sha256: str = Field("", description="`sha256:…` of the content, where nothing versions it; otherwise empty.")
    drawn: bool = Field(default=False, description="Whether its rows were drawn at random, since there are no data.")

    @property
    def pin(self) -> str:
        """The pin of the content: DVC's digest, or a phrase with our own digest if nothing versions the content."""
        return f"{NOT_VERSIONED} {self.sha256}" if self.sha256 else self.md5

    @property
    def feeds(self) -> str:
        """Name of the ``.npz`` with one array for each input of the model, rows first."""
        return f"{self.name}/feeds.npz"

    @property
    def targets(self) -> str:
        """Name of the ``.npz`` with the targets of the metric; without arrays for the fidelity program."""
        return f"{self.name}/targets.npz"


class Samples(Derived):
    """All splits by name, and one batch for each shape of the recipe."""

    digest: str = Field(description="Over the data, the program and the model's inputs; the key of the tree.")
    splits: dict[str, Split]
    shapes: dict[str, str] = Field(description="Name of the `.npz` of the batch that is timed, by the shape's name.")
    program: str = Field(description="Name of the program's file: in the tree, or in the library of built-in programs.")
    program_digest: str = Field(description="`sha256:…` of all its code, checked before it is run again.")
    slices: Slices | None = Field(None, description="The slices of the gate split; None if the recipe names none.")

    @property
    def drawn(self) -> bool:
        """Whether any of the rows were drawn at random: measurements on them prove nothing."""
        return any(split.drawn for split in self.splits.values())

    @property
    def identity(self) -> str:
        """The digest: the same rows at another commit are the same samples."""
        return self.digest


class Predicted(Value):
    """The cost of computing a model's predictions on a split."""

    cold_start_ms: float = Field(description="From loading to the first outputs, without the interpreter's start.")
    peak_memory_bytes: int = Field(description="Resident memory of its worker at its highest.")


class Score(Value):
    """One metric of the source model on the search split."""

    metric: str
    value: float = Field(description="The source's value of the metric.")
    kind: str = Field(description="How the metric is compared: `proportion`, `balanced`, `mean` or `bootstrap`.")
    n: int
    higher_is_better: bool = Field(default=True, description="The metric's direction.")
    span: float | None = Field(None, description="As `Quality.span`.")


class ProbeRows(Value):
    """Rows that are in no split, and for which the source returned finite numbers."""

    name: str = Field(description="What the rows have, as a noun.")
    feeds: str = Field(description="Name of the `.npz` with one array for each input of the model, rows first.")
    outputs: str = Field(description="Name of the `.npz` with the source's outputs for them.")
    extreme: bool = Field(description="Whether only a route that only converts must agree on them.")
    lenient: bool = Field(default=False, description="Whether a difference is listed and drops no candidate.")
    unlike_data: bool = Field(
        default=False, description="Whether no row of the data is like them: a trained candidate may differ there."
    )
    sizes: dict[str, int] = Field({}, description="The dimensions that have another size than in the data.")


class Reference(Score, Predicted, Derived):
    """The baseline: the outputs of the source model on the search split, and their quality."""

    outputs: str = Field(description="Name of the `.npz` with one array for each output, in the order of the rows.")
    cropped: dict[str, str] = Field(
        {}, description="Name of the `.npz` of its outputs on rows that are cut to a shape, by the shape's name."
    )
    noise: str = Field(
        "", description="Name of the `.npz` that marks the numbers of a row with the rounding of larger ones."
    )
    training: str = Field("", description="Name of the `.npz` of its outputs on the training split; empty if absent.")
    digest: str = Field(description="Over the source, its run options and the rows; the key of the tree.")
    others: tuple[Score, ...] = Field((), description="The other metrics that the recipe has a limit for, in order.")
    probes: tuple[ProbeRows, ...] = Field((), description="What the source takes beyond the splits.")
    doubt: str = Field("", description="Why the labels may not be the model's; empty where there is no doubt.")
    warnings: tuple[str, ...] = Field((), description="What is odd about the source's outputs, one sentence each.")
    run: str = Field("", description="The run in which the outputs were computed, this one or an earlier one.")
    since: str = Field("", description="The run that took it last: what was done since is for the same comparison.")

    @property
    def identity(self) -> str:
        """The digest, without the runs in which it was computed and taken: these change no comparison with it."""
        return digest_json(self.model_dump(mode="json", exclude={"run", "since"}))
