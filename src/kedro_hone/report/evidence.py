"""The evidence of one run: everything that proves a verdict, as it is written to ``evidence.json``.

Fields may be added under the same schema id, so readers ignore unknown ones. A changed or removed field raises the
number at the end of the id.
"""

from __future__ import annotations

import json

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError, model_validator

from hone_runtime.contract.proof import SCHEMA_ID, SchemaId
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import StepFacts
from hone_runtime.values.base import Json, Value
from hone_runtime.values.decision import Verdict
from hone_runtime.values.forms import WinnerForm
from hone_runtime.values.hardware import Hardware
from hone_runtime.values.judgement import Judgement
from hone_runtime.values.measurement import Choice, Confirmation, Finalist, Quality, Speedup
from hone_runtime.values.operators import Operators
from hone_runtime.values.samples import Split
from hone_runtime.values.wire import WireOutcome
from kedro_hone.report import records


class Evidence(Value):
    """All that proves the verdict of one run."""

    model_config = ConfigDict(allow_inf_nan=False, serialize_by_alias=True, validate_by_name=True)

    schema_id: SchemaId = Field(SCHEMA_ID, alias="schema", description="The schema's id.")
    run_id: str = Field(description="The run's id, which is also its folder's name.")
    created: AwareDatetime = Field(description="When the finalists were confirmed.")
    producer: str = Field("", description="The program that made it, with its version.")
    recipe: dict[str, Json] = Field(
        json_schema_extra={"properties": {"digest": {"type": "string"}}, "required": ["digest"]},
        description="The resolved settings with their `digest`.",
    )
    verdict: Verdict = Field(description="`PASS`, `KEEP`, `FAIL`, `INCONCLUSIVE` or `DRAFT`.")
    reasons: tuple[str, ...] = Field(description="One sentence each, the deciding one first.")
    source: records.SourceRecord = Field(description="The model, as it was measured against.")
    program: records.ProgramRecord | None = Field(None, description="What prepared the data and scored the outputs.")
    winner: records.WinnerRecord | None = Field(None, description="The candidate that won; None when none did.")
    forms: tuple[WinnerForm, ...] = Field((), description="The winner's other forms, which are published with it.")
    speedup: Speedup | None = Field(
        None, description="Of the winner, or else of the finalist that the report shows, at the deciding shape."
    )
    speedups: tuple[Speedup, ...] = Field((), description="The same at each shape.")
    latency: records.LatencyRecord | None = Field(None, description="At the deciding shape; None if none was timed.")
    latencies: tuple[records.LatencyRecord, ...] = Field((), description="The same at each shape.")
    percentiles: tuple[records.PercentilesRecord, ...] = Field(
        (), description="Of the source and of that candidate at each shape, where there are three launches."
    )
    throughputs: tuple[records.ThroughputRecord, ...] = Field(
        (),
        exclude_if=lambda value: not value,
        description="Of the same two at each shape with several clients; left out where no shape has them.",
    )
    operators: tuple[Operators, ...] = Field(
        (), description="Of the source and of each finalist at each shape, counted after the first launch."
    )
    quality: tuple[Quality, ...] = Field((), description="On the gate split, of each finalist that was looked at.")
    gates: tuple[Judgement, ...] = Field((), description="On each finalist, fastest first; on the source if it stays.")
    candidates: tuple[records.CandidateRecord, ...] = Field(description="Every candidate, with its reason.")
    front: tuple[str, ...] = Field(
        (),
        description="Candidates that none beats in speed, quality and size at once, by the race's estimates.",
    )
    choice: Choice | None = Field(None, description="What a person chose of the race; None for a search's own verdict.")
    race: records.RaceRecord = Field(description="How the search for the fastest went.")
    confirmation: Confirmation = Field(description="Finalists in fresh processes, and the source against itself.")
    wire: WireOutcome | None = Field(None, description="Through the wire; None unless the recipe requires it.")
    hardware: Hardware = Field(description="The machine.")
    environments: tuple[records.EnvironmentRecord, ...] = Field((), description="The toolchains' environments.")
    data: tuple[Split, ...] = Field((), description="The splits.")
    steps: tuple[StepFacts, ...] = Field((), description="Every recorded step.")
    phase_seconds: dict[str, float] = Field(default_factory=dict, description="Seconds spent in each phase of the run.")
    optimization_seconds: float = Field(
        0.0, description="Seconds of all work with an empty store: what this run reused counts, too."
    )
    break_even_calls: int | None = Field(None, description="Calls at the deciding shape until it has paid for itself.")
    counts: records.Counts = Field(records.Counts(), description="How much work this run did.")

    @model_validator(mode="after")
    def _check(self) -> Evidence:
        if not str(self.recipe.get("digest", "")).startswith("sha256:"):
            raise ValueError("a recorded recipe carries its own digest under 'digest'")
        json.dumps(self.model_dump(), allow_nan=False, default=str)  # a ValueError if a number is not finite
        return self

    @property
    def finalists(self) -> tuple[Finalist, ...]:
        """The candidates that were confirmed, best first."""
        return self.confirmation.finalists

    @property
    def subject(self) -> str | None:
        """The id of the candidate that the report is about: the winner, or else a finalist."""
        if self.winner:
            return self.winner.candidate
        finalist = self.confirmation.find_reported(None, self.speedup)
        return finalist.id if finalist else None

    @property
    def subject_quality(self) -> tuple[Quality, ...]:
        """The gate metrics of that candidate."""
        return tuple(quality for quality in self.quality if quality.id == self.subject)

    def find_candidate(self, identifier: str) -> records.CandidateRecord | None:
        """Return the candidate of that id, or None."""
        return next((candidate for candidate in self.candidates if candidate.id == identifier), None)

    def find_role(self, candidate: records.CandidateRecord) -> str:
        """Return ``winner``, ``source``, ``finalist`` or an empty string."""
        if self.winner and self.winner.candidate == candidate.id:
            return "winner"
        if not candidate.route:
            return "source"
        return "finalist" if any(finalist.id == candidate.id for finalist in self.finalists) else ""


def dump_evidence(evidence: Evidence) -> str:
    """Return the text of ``evidence.json``: indented, with a line break at the end."""
    return json.dumps(evidence.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


def find_first_field(error: ValidationError) -> str:
    """Return the first field that is wrong, or ``JSON`` if the text is not JSON."""
    return ".".join(map(str, error.errors()[0]["loc"])) or "JSON"


def parse_evidence(text: str | bytes) -> Evidence:
    """Read ``evidence.json``, of this version or a later one of the same schema id, whose new fields are left out.

    Raises:
        HoneError: ``evidence-unreadable``: it is no evidence, or of another schema id.
    """
    try:
        return Evidence.model_validate_json(text, extra="ignore")
    except ValidationError as error:
        fault, where = error.errors()[0], find_first_field(error)
        other = f"It is of the schema {fault['input']}, and this version reads {SCHEMA_ID}."
        why = other if where == "schema" else f"{where}: {fault['msg']}."
        hint = "Open report.html next to it, or read it with the version of kedro-hone that wrote it."
        what = "The evidence of the run cannot be read."
        raise HoneError("evidence-unreadable", what, why=why, hint=hint) from error
