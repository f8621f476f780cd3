"""The parts of the evidence: the source, the winner, every candidate, and where and on what it was measured."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from kedro_hone.core.values.base import Json
from kedro_hone.core.values.measurement import Interval, Latency, Spread, Status


class Record(BaseModel):
    """Base of every part of the evidence: frozen, finite numbers only, and strict while it is being written."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
    )


class SourceRecord(Record):
    """The model that was optimized.

    Attributes:
        uri: Where it came from, with the version pinned.
        version: The registry's version, or the revision; empty for a plain path.
        format: What kind of files it is.
        digest: ``sha256:…`` of its artifact.
        baseline: How it was run to be measured against, in words.
    """

    uri: str
    version: str = ""
    format: str
    digest: str
    baseline: str = ""


class WinnerRecord(Record):
    """The candidate that won.

    Attributes:
        candidate: Its id.
        route: The adaptors that made it, in order; empty where the source won.
        format: What kind of files it is.
        digest: ``sha256:…`` of its artifact.
        runtime: The toolchain that opens it.
        path: Where it lies on the machine of the run, relative to the project's folder.
    """

    candidate: str
    route: tuple[str, ...]
    format: str
    digest: str
    runtime: str = ""
    path: str = ""


class SpeedupRecord(Record):
    """How many times faster than the baseline, at one shape; confirmed in fresh processes.

    Attributes:
        estimate: Baseline time over candidate time.
        low: The lower end of the interval.
        high: The upper end of the interval.
        confidence: The coverage of the interval, such as 0.95.
        noise_floor: At least 1: what the source reached against itself. The gate divides ``low`` by it.
        baseline: What it was measured against, in words.
        shape: The recipe's name of the shape.
        launches: How many launches of each were compared.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    noise_floor: float
    baseline: str
    shape: str
    launches: int = 0


class ShapeLatency(Record):
    """Times of the source and the winner at one shape.

    Attributes:
        shape: The recipe's name of the shape.
        source: The source's times.
        winner: The winner's times, or None where the source stays.
    """

    shape: str
    source: Latency
    winner: Latency | None = None


class LatencyRecord(Record):
    """Times before and after.

    Attributes:
        source: The source's times at the deciding shape.
        winner: The winner's times at the deciding shape, or None where the source stays.
        shapes: The same at every shape.
    """

    source: Latency
    winner: Latency | None = None
    shapes: tuple[ShapeLatency, ...] = ()


class QualityRecord(Record):
    """One metric of one candidate against the source, on the same rows.

    Attributes:
        candidate: The candidate's id.
        metric: The metric's name.
        split: ``search`` or ``gate``.
        source: The source's value.
        winner: The candidate's value (the winner's, where the candidate won).
        drop: How much worse the candidate is; positive is worse.
        low: The lower end of the drop's interval.
        high: The upper end of the drop's interval.
        confidence: The coverage of the interval.
        limit: The largest drop that the recipe allows, or None when none was asked.
        provable: The smallest limit that so many rows could prove with nothing lost, or None where it is not known.
        n: The number of rows.
        spread: How much worse single rows are, in the metric's unit; None where rows are right or wrong, or the metric
            is no mean over rows.
    """

    candidate: str
    metric: str
    split: Literal["search", "gate"]
    source: float
    winner: float
    drop: float
    low: float
    high: float
    confidence: float = 0.95
    limit: float | None = None
    provable: float | None = None
    n: int
    spread: Spread | None = None


class CandidateRecord(Record):
    """What became of one candidate.

    Attributes:
        id: The namespace that ends its route; ``source`` for the source model itself.
        route: The adaptors in order; empty for the source model itself.
        status: What became of it.
        reason: Why it was dropped, refused, not tried, or failed; empty when it was measured to the end.
        failure_class: The class of the failure, or None.
        latency: Its times in the race, one for each shape.
        ratios: Its speed-up in the race at each shape: the search's estimate, never the result.
        speedup: The interval of the race's objective, or None.
        quality: Its metric on the search split, or None.
        size_bytes: The artifact's files.
        cold_start_ms: From the start of loading to the first answer.
        peak_memory_bytes: Resident memory of its worker at its highest.
        build_seconds: The time that its own steps took when they were built.
        cached: Whether nothing of it had to be built or validated in this run.
        rounds: How many rounds of the race it was measured in.
        publishable: False where the licence of its runtime forbids to publish it.
        machine_options: Options that the machine decides where the recipe does not, as they were, by adaptor.
        note: Anything else that a reader must know, such as that licence.
    """

    id: str
    route: tuple[str, ...]
    status: Status
    reason: str = ""
    failure_class: str | None = None
    latency: tuple[Latency, ...] = ()
    ratios: dict[str, float] = Field(default_factory=dict)
    speedup: Interval | None = None
    quality: QualityRecord | None = None
    size_bytes: int | None = None
    cold_start_ms: float | None = None
    peak_memory_bytes: int | None = None
    build_seconds: float = 0.0
    cached: bool = False
    rounds: int = 0
    publishable: bool = True
    machine_options: dict[str, dict[str, Json]] = Field(default_factory=dict)
    note: str = ""


class FinalistRecord(Record):
    """A candidate that was measured again in fresh processes.

    Attributes:
        id: The candidate's id.
        speedups: One for each shape.
        latency: Its times at each shape.
        launches: How many launches it was measured in.
        reason: Why it could not be confirmed or did not pass, or an empty string.
    """

    id: str
    speedups: tuple[SpeedupRecord, ...] = ()
    latency: tuple[Latency, ...] = ()
    launches: int = 0
    reason: str = ""


class RaceRecord(Record):
    """How the race went.

    Attributes:
        rounds: How many rounds there were.
        seconds: How long it took, without the wait for another run's measuring.
        budget_ended: Whether the budget ended it, rather than that nothing was left to decide.
        samples: The file with the raw timings, relative to the run's folder.
    """

    rounds: int
    seconds: float
    budget_ended: bool = False
    samples: str = ""


class ConfirmationRecord(Record):
    """How the finalists were confirmed.

    Attributes:
        launches: How many rounds of launches there were.
        looks: How often the data were looked at; the level of the intervals is corrected for it.
        seconds: How long it took, without the wait for another run's measuring.
        control: The source against itself (A/A), at each shape.
        samples: The file with one number for each launch, relative to the run's folder.
    """

    launches: int
    looks: int
    seconds: float
    control: tuple[SpeedupRecord, ...] = ()
    samples: str = ""
