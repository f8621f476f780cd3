"""The evidence of one run: everything that proves a verdict, as it is written to ``evidence.json``.

Fields may be added under the same schema id, so readers ignore what they do not know; a changed or removed field raises
the number at the end of the id.
"""

from __future__ import annotations

import json

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError, model_validator

from kedro_hone.core.contract.proof import SCHEMA_ID, SchemaId
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.artifact import StepFacts
from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.decision import Verdict
from kedro_hone.core.values.judgement import Judgement
from kedro_hone.core.values.measurement import Confirmation, Finalist, Quality, Speedup
from kedro_hone.core.values.samples import Split
from kedro_hone.report import records


class Evidence(Value):
    """All that proves the verdict of one run.

    Attributes:
        schema_id: The id of this schema; ``schema`` in JSON.
        run_id: The run's id, which is also its folder's name.
        created: When the verdict was made.
        producer: The program that made it, with its version.
        recipe: The resolved settings with their ``digest``.
        verdict: ``PASS``, ``KEEP``, ``FAIL`` or ``INCONCLUSIVE``.
        reasons: One sentence each, the deciding one first.
        source: The model that was optimized.
        winner: The candidate that won, or None when the source stays or nothing holds.
        speedup: The winner's, or the best finalist's, at the deciding shape; None when nothing was confirmed.
        speedups: The same at each shape.
        latency: Times before and after at the deciding shape, or None when nothing was timed.
        latencies: The same at each shape.
        quality: Every metric of every finalist on the gate split, in the order in which they were looked at.
        gates: The judgement of each gate on each finalist, in the order of their speed; on the source where it stays.
        candidates: Every candidate, with its reason.
        race: How the race went.
        confirmation: The finalists, measured again in fresh processes, and the source against itself.
        hardware: The machine.
        environments: The toolchains' locked environments.
        data: The splits.
        steps: Every recorded step.
        phase_seconds: Seconds spent in each phase of the run.
        optimization_seconds: What the optimization cost; found in the store or not.
        break_even_calls: After so many calls at the deciding shape the optimization has paid for itself.
        counts: How much work this run did.
    """

    model_config = ConfigDict(
        allow_inf_nan=False, serialize_by_alias=True, validate_by_name=True, validate_by_alias=True
    )

    schema_id: SchemaId = Field(default=SCHEMA_ID, alias="schema")
    run_id: str
    created: AwareDatetime
    producer: str = ""
    recipe: dict[str, Json] = Field(
        json_schema_extra={"properties": {"digest": {"type": "string"}}, "required": ["digest"]}
    )
    verdict: Verdict
    reasons: tuple[str, ...]
    source: records.SourceRecord
    winner: records.WinnerRecord | None = None
    speedup: Speedup | None = None
    speedups: tuple[Speedup, ...] = ()
    latency: records.LatencyRecord | None = None
    latencies: tuple[records.LatencyRecord, ...] = ()
    quality: tuple[Quality, ...] = ()
    gates: tuple[Judgement, ...] = ()
    candidates: tuple[records.CandidateRecord, ...]
    race: records.RaceRecord
    confirmation: Confirmation
    hardware: records.Hardware
    environments: tuple[records.EnvironmentRecord, ...] = ()
    data: tuple[Split, ...] = ()
    steps: tuple[StepFacts, ...] = ()
    phase_seconds: dict[str, float] = Field(default_factory=dict)
    optimization_seconds: float = 0.0
    break_even_calls: int | None = None
    counts: records.Counts = records.Counts()

    @model_validator(mode="after")
    def _check(self) -> Evidence:
        if not str(self.recipe.get("digest", "")).startswith("sha256:"):
            raise ValueError("a recorded recipe carries its own digest under 'digest'")
        json.dumps(self.model_dump(), allow_nan=False, default=str)  # a ValueError where a number is not finite
        return self

    @property
    def finalists(self) -> tuple[Finalist, ...]:
        """The candidates that were confirmed, best first."""
        return self.confirmation.finalists

    @property
    def subject(self) -> str | None:
        """The id of the candidate that the report is about: the winner, or else the best finalist."""
        return self.winner.candidate if self.winner else next((finalist.id for finalist in self.finalists), None)

    @property
    def subject_quality(self) -> tuple[Quality, ...]:
        """The gate metrics of that candidate."""
        return tuple(quality for quality in self.quality if quality.id == self.subject)

    def find_candidate(self, identifier: str) -> records.CandidateRecord | None:
        """Return the candidate of that id, or None."""
        return next((candidate for candidate in self.candidates if candidate.id == identifier), None)


def dump_evidence(evidence: Evidence) -> str:
    """Return the text of ``evidence.json``: indented, with a line break at the end."""
    return json.dumps(evidence.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


def parse_evidence(text: str | bytes) -> Evidence:
    """Read ``evidence.json``, of this version or a later one of the same schema id, whose new fields are left out.

    Raises:
        HoneError: ``evidence-unreadable``: it is no evidence, or of another schema id.
    """
    try:
        return Evidence.model_validate_json(text, extra="ignore")
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"])) or "JSON"
        why = f"{where}: {fault['msg']}."
        if where == "schema":
            why = f"It is of the schema {fault['input']}, and this version reads {SCHEMA_ID}."
        raise HoneError(
            "evidence-unreadable",
            "The evidence of the run cannot be read.",
            why=why,
            hint="Open report.html next to it, or read it with the version of kedro-hone that wrote it.",
        ) from error
