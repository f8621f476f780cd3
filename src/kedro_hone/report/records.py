"""The parts of the evidence that join several values; their descriptions are part of the published schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from hone_runtime.values.base import Json, Value
from hone_runtime.values.measurement import Checks, Interval, Latency, Load, Status


class SourceRecord(Value):
    """The model that was optimized."""

    uri: str = Field(description="Where it came from, with the version pinned.")
    version: str = Field("", description="The registry's version, or the revision; empty for a plain path.")
    base: str = Field("", description="Of an adapter: the model that it was merged into, with the version pinned.")
    format: str = Field(description="What kind of files it is.")
    digest: str = Field(description="`sha256:…` of its artifact.")
    baseline: str = Field("", description="How it was run to be measured against, in words.")


class ProgramRecord(Value):
    """The code that made inputs of the data and scored the outputs; where it is the user's, the recipe names it."""

    name: str = Field(description="As the recipe has it: a built-in program, a path or a module.")
    digest: str = Field(description="`sha256:…` of all its code, compared before it ran.")
    metric: str = Field("", description="The recipe's metric; empty for the program's own.")
    metric_digest: str = Field("", description="`sha256:…` of the file of the user's own metric.")


class WinnerRecord(Value):
    """The candidate that won."""

    candidate: str = Field(description="Its id.")
    route: tuple[str, ...] = Field(description="The adaptors that made it, in order; empty where the source won.")
    format: str = Field(description="What kind of files it is.")
    digest: str = Field(description="`sha256:…` of its artifact.")
    runtime: str = Field("", description="The toolchain that opens it.")
    path: str = Field("", description="Where it is on the run's machine, relative to the project's folder.")
    interface: str = Field("", description="The interface that `kedro_hone.load` gives it, such as `transformers`.")


class LatencyRecord(Value):
    """Times before and after, at one shape."""

    source: Latency = Field(description="The source's times.")
    winner: Latency | None = Field(None, description="The winner's times, or None where the source stays.")


class PercentilesRecord(Value):
    """Percentiles of the times of a call in the confirmation, in milliseconds; each launch is one sample.

    The estimate is the geometric mean of the percentiles of the launches.
    """

    id: str = Field(description="The candidate's id; `source` for the source model.")
    shape: str = Field(description="The recipe's name of the shape.")
    launches: int = Field(description="How many launches there were.")
    fewest_calls: int = Field(description="How many calls were timed in the launch with the fewest.")
    p50: Interval = Field(description="The median, with its interval over launches.")
    p90: Interval | None = Field(None, description="None with fewer than 64 calls in a launch.")
    p99: Interval | None = Field(None, description="None with fewer than 100 calls in a launch.")


class ThroughputRecord(Value):
    """Rows per second of several clients at once in the confirmation; each launch is one sample."""

    id: str = Field(description="The candidate's id; `source` for the source model.")
    shape: str = Field(description="The recipe's name of the shape.")
    clients: int = Field(description="How many clients called at once.")
    launches: int = Field(description="How many launches there were.")
    rows_per_second: Interval = Field(description="Of all clients together, with its interval over launches.")


class TuningPoint(Value):
    """One choice of operators that a tuning validated on the search split."""

    share: float = Field(ge=0, le=1, description="The share of its operators that were quantized.")
    drop: float | None = Field(None, description="The metric's drop; None if it is not a number.")
    others: dict[str, float | None] = Field(
        default_factory=dict, description="The drops of the recipe's other metrics."
    )
    time: float | None = Field(None, ge=0, description="Of all operators, over that of the source, by a profile.")


class Tuning(Value):
    """How a tuned quantizer chose the operators that it left as they were."""

    strategy: str = Field(description="The strategy's name.")
    metric: str = Field(description="The recipe's metric, or the program's own.")
    limit: float = Field(description="The allowed drop.")
    others: dict[str, float] = Field(
        default_factory=dict, description="The allowed drops of the recipe's other metrics."
    )
    evaluations: int = Field(ge=0, description="How many choices were validated.")
    operators: int = Field(ge=1, description="How many operators can be quantized.")
    int8: int = Field(ge=0, description="How many of them are in int8 in the result.")
    excluded: tuple[str, ...] = Field((), description="The names of the others, up to 100.")
    curve: tuple[TuningPoint, ...] = Field((), description="The validated choices, in order.")


class CandidateRecord(Checks):
    """One candidate: its validation and its result in the race, joined."""

    id: str = Field(description="The namespace that ends its route; `source` for the source model itself.")
    route: tuple[str, ...] = Field(description="The adaptors in order; empty for the source model itself.")
    status: Status = Field(description="Its result.")
    reason: str = Field("", description="Why it was not measured to the end, or an empty string.")
    failure_class: str | None = Field(None, description="The class of the failure, or None.")
    latency: tuple[Latency, ...] = Field((), description="Its times in the race, one for each shape.")
    ratios: dict[str, float] = Field(default_factory=dict, description="At each shape: an estimate, never the result.")
    speedup: Interval | None = Field(None, description="The interval of the race's objective, or None.")
    build_seconds: float = Field(0.0, description="The time that its own steps took when they were built.")
    cached: bool = Field(default=False, description="Whether this run built and validated nothing of it.")
    rounds: int = Field(0, description="How many rounds of the race it was measured in.")
    machine_options: dict[str, dict[str, Json]] = Field(
        default_factory=dict,
        description="Options whose default depends on the machine, by adaptor.",
    )
    options: dict[str, dict[str, Json]] = Field(
        default_factory=dict,
        description="Those of which the recipe lists several values, with the candidate's own, by adaptor.",
    )
    parts: dict[str, str] = Field(
        default_factory=dict, description="Of a composite: the candidate whose artifact serves each shape."
    )
    tuning: Tuning | None = Field(None, description="Of a tuned quantization: how its operators were chosen.")


class RaceRecord(Value):
    """How the race went."""

    rounds: int = Field(description="How many rounds there were.")
    seconds: float = Field(description="How long it took, without the wait for another run's measuring.")
    budget_ended: bool = Field(default=False, description="Whether the budget ended it, and not a decision.")
    timings: str = Field(description="The file of all raw timings, also the confirmation's, in the run's folder.")
    other_load: Load | None = Field(None, description="Share of the cores' time that other processes took, 0 to 1.")


class EnvironmentRecord(Value):
    """The environment of one toolchain."""

    toolchain: str = Field(description="The toolchain's name.")
    key: str = Field(description="The environment's key.")
    lock_digest: str = Field(description="`sha256:…` of the lock; where no lock made it, of the versions in it.")
    origin: Literal["", "locked", "shared", "named"] = Field(
        "",
        description="Made from the toolchain's lock; the interpreter of the run; or one that the recipe names. Empty "
        "in older evidence.",
    )
    versions: dict[str, str] = Field(default_factory=dict, description="Of each package that matters.")


class Counts(Value):
    """How much work made the values of this evidence; what was found in the store was not built or validated again."""

    builds: int = Field(0, description="Steps that were really run.")
    validations: int = Field(0, description="Candidates that were really validated.")
    launches: int = Field(0, description="Worker processes in which something was timed.")
    reused_failures: int = Field(0, description="Candidates that failed in an earlier run, and were not tried again.")


def group_reasons(candidates: Iterable[CandidateRecord]) -> list[list[CandidateRecord]]:
    """Return candidates that were not measured, grouped by their reasons, in the given order."""
    groups: dict[tuple[str, ...], list[CandidateRecord]] = {}
    for one in candidates:
        known = (one.failure_class or "", one.reason, one.note) if one.reason else (one.id,)
        groups.setdefault(known, []).append(one)
    return list(groups.values())
