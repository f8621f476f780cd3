"""The values of measuring: intervals, latencies, quality, and what is said of each candidate."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from kedro_hone.core.values.base import Value
from kedro_hone.core.values.outcome import Candidate


class Interval(Value):
    """An estimate with its confidence interval.

    Attributes:
        estimate: The point estimate.
        low: The lower end.
        high: The upper end.
        confidence: The coverage it was made for, such as 0.95.
    """

    estimate: float
    low: float
    high: float
    confidence: float = 0.95


def is_bounded(end: float) -> bool:
    """Whether the end of an interval is known: JSON has no infinity, and the largest number stands for it."""
    return abs(end) < 1e300


class Latency(Value):
    """Times of one call at one shape.

    Attributes:
        shape: The recipe's name of the shape.
        p50_ms: The median, in milliseconds.
        n: How many calls were timed.
        p90_ms: Only where there are 64 samples at least.
        p99_ms: Only where there are 662 samples at least.
    """

    shape: str
    p50_ms: float
    n: int
    p90_ms: float | None = None
    p99_ms: float | None = None


class Speedup(Value):
    """How many times faster than the source, at one shape.

    Attributes:
        shape: The recipe's name of the shape.
        ratio: Source time over candidate time, with its interval.
        noise_floor: At least 1: what the source against itself reached (see ``core.stats.find_noise_floor``).
        launches: How many launches each were compared.
    """

    shape: str
    ratio: Interval
    noise_floor: float
    launches: int


class Spread(Value):
    """How much worse a candidate is row by row, in the metric's unit; positive is worse.

    Attributes:
        best: The smallest difference of a row.
        p5: Five in a hundred rows have a smaller one.
        median: Half of the rows have a smaller one.
        p95: Ninety-five in a hundred rows have a smaller one.
        p99: Ninety-nine in a hundred rows have a smaller one.
        worst: The largest difference of a row.
    """

    best: float
    p5: float
    median: float
    p95: float
    p99: float
    worst: float


class Quality(Value):
    """One metric of a candidate against the source, on the same rows.

    Attributes:
        id: The candidate's id.
        metric: The metric's name.
        higher_is_better: Its direction.
        split: ``search`` or ``gate``.
        source: The source's value.
        candidate: The candidate's value.
        drop: How much worse the candidate is, in the metric's unit (positive is worse), with its interval.
        limit: The largest drop that the recipe allows, or None when none was asked.
        n: The number of rows.
        kind: How the metric is compared: ``proportion``, ``mean`` or ``bootstrap``.
        doubt: Why the labels may not be those of the predictions; empty where the program has no doubt.
        provable: The smallest limit that so many rows could prove with nothing lost, or None where it is not known.
        spread: How much worse single rows are; None where rows are right or wrong, or the metric is no mean over rows.
    """

    id: str = ""
    metric: str
    higher_is_better: bool = True
    split: str
    source: float
    candidate: float
    drop: Interval
    limit: float | None = None
    n: int
    kind: str = ""
    doubt: str = ""
    provable: float | None = None
    spread: Spread | None = None


class Status(StrEnum):
    """What became of a candidate."""

    MEASURED = "measured"
    DROPPED = "dropped"
    REFUSED = "refused"
    FAILED = "failed"
    NOT_TRIED = "not_tried"


class Checks(Value):
    """What was found out about a candidate before the race; None where it was not measured.

    Attributes:
        quality: Its metric on the search split.
        largest_error: Largest absolute difference of its outputs from the source's, over the source's largest output.
        size_bytes: The artifact's files.
        cold_start_ms: From the start of loading to the first prediction, without the interpreter's start.
        peak_memory_bytes: Resident memory of its worker at its highest.
        publishable: False where the licence of its runtime forbids publishing it.
        note: Anything else that a reader must know, such as that licence.
    """

    quality: Quality | None = None
    largest_error: float | None = None
    size_bytes: int | None = None
    cold_start_ms: float | None = None
    peak_memory_bytes: int | None = None
    publishable: bool = True
    note: str = ""


class Measured(Value):
    """What was found by comparing candidates with the source.

    Attributes:
        subject: ``Setting.subject`` of what it was found for. A node that is given one of another subject refuses it.
    """

    subject: str = ""


class Validation(Checks, Measured):
    """The result of validating one candidate.

    Attributes:
        status: Measured when it may race; else refused, failed or dropped.
        reason: Why it may not race, or an empty string.
        slug: The failure class or the refusal's slug, or an empty string.
        run: The run that really validated it, this one or an earlier one; empty where there was nothing to validate.
        seconds: How long that took.
        since: The run that took the baseline that it is compared with.
    """

    candidate: Candidate
    status: Status
    reason: str = ""
    slug: str = ""
    run: str = ""
    seconds: float = 0.0
    since: str = ""

    @property
    def build_seconds(self) -> float:
        """The time that the steps of its route took when they were built."""
        return sum(step.seconds for step in self.candidate.outcome.steps)

    @property
    def cached(self) -> bool:
        """Whether all of it was built and validated before its baseline was taken, and found in the store."""
        runs = [self.run, *(step.run for step in self.candidate.outcome.steps)]
        return bool(self.run) and max(runs) < self.since


class Standing(Value):
    """A candidate's rank and estimates at the end of the race.

    Attributes:
        status: Measured to the end, dropped on the way, failed, or not tried.
        rounds: How many rounds it was measured in.
        ratios: Speed-up over the source at each shape: the search's estimate, never reported as the result.
        objective: The interval of the recipe's objective: the speed-up over all shapes.
        reason: Why it left the race.
        slug: The class of its failure, or an empty string.
    """

    id: str
    status: Status
    rounds: int
    ratios: dict[str, float] = Field(default_factory=dict)
    latency: tuple[Latency, ...] = ()
    objective: Interval | None = None
    reason: str = ""
    slug: str = ""


class RaceResult(Measured):
    """The result of the race: every candidate's standing, best first.

    Attributes:
        validations: Of every candidate, also of those that could not race.
        seconds: How long it took, without the wait for another run's measuring.
        budget_ended: Whether the budget ended it.
        timings: The raw timings, by their key in the store.
        workers: How many worker processes were launched.
        other_load: The share of the cores' time that other processes took meanwhile, 0 to 1; None where not known.
    """

    validations: tuple[Validation, ...]
    standings: tuple[Standing, ...]
    source_latency: tuple[Latency, ...]
    rounds: int
    seconds: float
    budget_ended: bool
    timings: str
    workers: int = 0
    other_load: float | None = None

    @property
    def validated(self) -> dict[str, Validation]:
        """The validations by the candidate's id."""
        return {validation.candidate.id: validation for validation in self.validations}


class Finalist(Value):
    """A candidate measured again in fresh processes.

    Attributes:
        id: The candidate's id.
        speedups: One for each shape.
        latency: Its times at each shape.
        launches: How many launches it was measured in.
        verdict: ``yes``, ``no`` or ``undecided``: whether it is faster by the threshold; empty when it failed.
        deciding: The speed-up that the verdict was made from.
        reason: Why it could not be confirmed, or an empty string.
    """

    id: str
    speedups: tuple[Speedup, ...]
    latency: tuple[Latency, ...]
    launches: int
    verdict: str = ""
    deciding: Speedup | None = None
    reason: str = ""


class Confirmation(Measured):
    """The finalists against the source, with the source against itself.

    Attributes:
        subject: The digest of the source, the data and the recipe but for ``publish``.
        finalists: Best first, by the lower end at the deciding shape.
        source_latency: The source's times at each shape.
        control: The source over itself (A/A) at each shape.
        launches: How many rounds of launches there were.
        looks: How often the data were looked at; the confidence level is corrected for it.
        seconds: How long it took, without the wait for another run's measuring.
        timings: The raw timings, by their key in the store.
        workers: How many worker processes were launched.
        other_load: The share of the cores' time that other processes took meanwhile, 0 to 1; None where not known.
    """

    finalists: tuple[Finalist, ...]
    source_latency: tuple[Latency, ...]
    control: tuple[Speedup, ...]
    launches: int
    looks: int
    seconds: float
    timings: str
    workers: int = 0
    other_load: float | None = None
