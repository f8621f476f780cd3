"""The values of measurements: intervals, latencies, quality, and the results of each candidate."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from hone_runtime.values.base import Derived, Value
from hone_runtime.values.class_rows import ClassRows
from hone_runtime.values.hardware import Hardware
from hone_runtime.values.operators import Operators
from hone_runtime.values.outcome import Candidate
from hone_runtime.values.spread import Spread
from hone_runtime.values.unscored import Unscored

Load = Annotated[float, Field(ge=0, le=1)]
"""A share of all cores' time."""
BUSY: Final = 0.1
"""Above this load by other processes a machine is called busy."""


class Interval(Value):
    """An estimate with its confidence interval."""

    estimate: float = Field(description="The point estimate.")
    low: float = Field(description="The lower end.")
    high: float = Field(description="The upper end.")
    confidence: float = Field(0.95, description="The coverage it was made for, such as 0.95.")


def is_bounded(end: float) -> bool:
    """Whether an end of an interval is known: JSON has no infinity, so the largest number represents it."""
    return abs(end) < 1e300


def is_telling(ratio: Interval) -> bool:
    """Whether a ratio's upper end is informative: of two or three launches it may be a number of sixty digits."""
    return ratio.high <= 100 * ratio.low


P99_FROM: Final = 662
"""The fewest samples for a 99th percentile."""


class Latency(Value):
    """Times of one call at one shape."""

    shape: str = Field(description="The recipe's name of the shape.")
    p50_ms: float = Field(description="The median, in milliseconds.")
    n: int = Field(description="How many calls were timed.")
    p90_ms: float | None = Field(None, description="Only where there are 64 samples at least.")
    p99_ms: float | None = Field(None, description="Only where there are 662 samples at least.")
    block_ms: float | None = Field(
        None,
        exclude_if=lambda value: value is None,
        description="Of several clients: the median over rounds of the time of a block of calls over their number.",
    )

    @property
    def call_ms(self) -> float:
        """The time that one call takes of the model's: with several clients shorter than what a client waits."""
        return self.p50_ms if self.block_ms is None else self.block_ms


class Speedup(Value):
    """How many times as fast as the source, at one shape."""

    shape: str = Field(description="The recipe's name of the shape.")
    ratio: Interval = Field(description="Source time over candidate time, with its interval.")
    noise_floor: float = Field(description="What the source against itself (A/A) reached, 1 at least.")
    launches: int = Field(description="How many launches each were compared.")


class SliceQuality(Value):
    """The metric on the rows of one slice."""

    name: str = Field(description="The value of the column that divides the rows.")
    n: int = Field(description="The number of its rows.")
    source: float | None = Field(None, description="The source's value; None if the metric is not defined on it.")
    candidate: float | None = Field(None, description="The candidate's value, or None in the same way.")
    drop: Interval = Field(description="How much worse the candidate is, at the level of one of all slices.")
    reason: str = Field("", description="Why the drop has no known ends, or an empty string.")


class Quality(Value):
    """One metric of a candidate against the source, on the same rows."""

    id: str = Field("", description="The candidate's id.")
    metric: str = Field(description="The metric's name.")
    higher_is_better: bool = Field(default=True, description="Its direction.")
    split: str = Field(description="`search` or `gate`.")
    source: float = Field(description="The source's value.")
    candidate: float = Field(description="The candidate's value.")
    drop: Interval = Field(description="How much worse the candidate is, in the metric's unit; positive is worse.")
    limit: float | None = Field(None, description="The largest drop that the recipe allows, or None.")
    n: int = Field(description="The number of rows.")
    kind: str = Field("", description="How the metric is compared: `proportion`, `balanced`, `mean` or `bootstrap`.")
    doubt: str = Field("", description="Why the labels may not be those of the predictions; empty without doubt.")
    provable: float | None = Field(None, description="The smallest limit that so many rows could prove, or None.")
    span: float | None = Field(
        None,
        description="What was taken for the most that rows that were not seen may lose, in the metric's unit: 1 where "
        "they are right or wrong, else what the source loses with the targets of other rows; None if not known.",
    )
    spread: Spread | None = Field(None, description="Of the rows; None where the metric is no mean over numbers.")
    lost: float | None = Field(
        None, description="Rows that only the source predicts right; None where the metric is no share of right rows."
    )
    gained: float | None = Field(None, description="Rows that only the candidate predicts right, in the same way.")
    classes: tuple[ClassRows, ...] = Field((), description="For a balanced accuracy, the rows of each class.")
    outputs: tuple[str, ...] = Field((), description="The model's outputs that it is computed from, by name.")
    slices: tuple[SliceQuality, ...] = Field((), description="The parts of the split that `gates.slices` names.")
    others: tuple[Quality, ...] = Field((), description="The other metrics that the recipe has a limit for.")

    @property
    def scored(self) -> frozenset[str]:
        """The outputs from which this metric and the others are computed."""
        return frozenset(name for one in (self, *self.others) for name in one.outputs)


class Status(StrEnum):
    """The outcome of a candidate."""

    MEASURED = "measured"
    DROPPED = "dropped"
    REFUSED = "refused"
    FAILED = "failed"
    NOT_TRIED = "not_tried"


class Checks(Value):
    """The results of a candidate's checks before the race; None if not measured."""

    quality: Quality | None = Field(None, description="Its metric on the search split.")
    largest_error: float | None = Field(None, description="Largest difference of an output over the source's largest.")
    size_bytes: int | None = Field(None, description="The artifact's files.")
    cold_start_ms: float | None = Field(None, description="From loading to the first prediction; Python runs already.")
    peak_memory_bytes: int | None = Field(None, description="Resident memory of its worker at its highest.")
    publishable: bool = Field(default=True, description="False where the licence of a toolchain forbids publishing it.")
    note: str = Field("", description="Anything else that a reader must know, such as that licence.")
    limits: tuple[str, ...] = Field((), description="Inputs that it does not take as the source does.")
    unscored: tuple[Unscored, ...] = Field((), description="How each output that no metric reads differs.")

    @property
    def loss(self) -> tuple[float, float]:
        """The loss in quality: the drop on the search split, or 0, then the power of ten of its largest error.

        A drop below 0 is chance, and so is the order of two rounding errors. An unknown value counts as 0.
        """
        drop = self.quality.drop.estimate if self.quality is not None else 0.0
        power = math.log10(self.largest_error) if self.largest_error else -math.inf
        return max(drop, 0.0), math.ceil(power) if math.isfinite(power) else power


RACED: Final = frozenset({Status.MEASURED, Status.DROPPED})
"""Statuses of a standing: measured to the end, or until it was too far behind. The figures of a failed candidate are
meaningless."""


class Validation(Checks, Derived):
    """The result of validating one candidate."""

    candidate: Candidate
    status: Status = Field(description="Measured when it may race; else refused, failed or dropped.")
    reason: str = Field("", description="Why it may not race, or an empty string.")
    slug: str = Field("", description="The failure class or the refusal's slug, or an empty string.")
    run: str = Field("", description="The run that validated it, this one or an earlier one; empty where none did.")
    seconds: float = Field(0.0, description="How long that took.")
    since: str = Field("", description="The run that took the baseline that it is compared with.")
    tries: int = Field(1, ge=1, description="In how many runs it was validated; this is the last one's result.")

    @property
    def reused_failure(self) -> bool:
        """Whether it failed in an earlier run, and was not tried again."""
        failed_step = any(step.outcome == "failed" for step in self.candidate.outcome.steps[-1:])
        return self.status is Status.FAILED and (failed_step or bool(self.run)) and not self.renewed

    @property
    def build_seconds(self) -> float:
        """The build time of the steps of its route, in seconds."""
        return sum(step.seconds for step in self.candidate.outcome.steps)

    @property
    def renewed(self) -> bool:
        """Whether any part of it was built or validated after its baseline was taken, and not found in the store."""
        return max([self.run, *(step.run for step in self.candidate.outcome.steps)]) >= self.since

    @property
    def cached(self) -> bool:
        """Whether all of it was built and validated before its baseline was taken, and found in the store."""
        return bool(self.run) and not self.renewed


class Validations(Derived):
    """The validations of all routes, in their order."""

    validations: tuple[Validation, ...]


class Standing(Value):
    """A candidate's rank and estimates at the end of the race."""

    id: str
    status: Status = Field(description="Measured to the end, dropped on the way, failed, or not tried.")
    rounds: int = Field(description="How many rounds it was measured in.")
    ratios: dict[str, float] = Field({}, description="Speed-up at each shape: the search's estimate, never the result.")
    latency: tuple[Latency, ...] = ()
    objective: Interval | None = Field(None, description="Of the recipe's objective: the speed-up over all shapes.")
    reason: str = Field("", description="Why it left the race.")
    slug: str = Field("", description="The class of its failure, or an empty string.")


class Choice(Value):
    """The candidate that a person chose after the race, in place of the fastest."""

    candidate: str = Field(description="Its id.")
    number: int = Field(ge=1, description="How many of this race's candidates were chosen so far, with this one.")
    offered: int = Field(description="How many could be chosen.")
    confidence: float = Field(description="Of its intervals and of its gates, for so many choices.")


BUDGET: Final = "budget"
"""The slug for a candidate that was not built, validated or raced to the end; its reason explains why."""


class RaceResult(Derived):
    """The result of the race: every candidate's standing, best first."""

    validations: tuple[Validation, ...] = Field(description="Of every candidate, also of those that could not race.")
    standings: tuple[Standing, ...]
    source_latency: tuple[Latency, ...]
    rounds: int
    seconds: float = Field(description="How long it took, without the wait for another run's measuring.")
    budget_ended: bool = Field(description="Whether the budget ended it.")
    timings: str = Field(description="The raw timings, by their key in the store.")
    workers: int = Field(0, description="How many worker processes were launched.")
    other_load: Load | None = Field(None, description="Share of the cores' time that other processes took, 0 to 1.")
    choice: Choice | None = Field(None, description="What a person chose of it; None in a search.")

    @property
    def validated(self) -> dict[str, Validation]:
        """The validations by the candidate's id."""
        return {validation.candidate.id: validation for validation in self.validations}


class Finalist(Value):
    """A candidate that was measured again in fresh processes."""

    id: str = Field(description="The candidate's id.")
    speedups: tuple[Speedup, ...] = Field(description="One for each shape.")
    latency: tuple[Latency, ...] = Field(description="Its times at each shape.")
    launches: int = Field(description="How many launches it was measured in.")
    verdict: str = Field("", description="`yes`, `no` or `undecided`: faster by the threshold? Empty when it failed.")
    deciding: Speedup | None = Field(None, description="The speed-up that the verdict was made from.")
    reason: str = Field("", description="Why it could not be confirmed, or an empty string.")


class Confirmation(Value):
    """The finalists compared with the source, and the source compared with itself."""

    finalists: tuple[Finalist, ...] = Field(description="Best first, by the lower end at the deciding shape.")
    source_latency: tuple[Latency, ...] = Field(description="The source's times at each shape.")
    control: tuple[Speedup, ...] = Field(description="The source over itself (A/A) at each shape.")
    launches: int = Field(description="How many rounds of launches there were.")
    looks: int = Field(description="How often the data were looked at; the confidence level is corrected for it.")
    seconds: float = Field(description="How long it took, without the wait for another run's measuring.")
    timings: str = Field(description="The raw timings, by their key in the store.")
    workers: int = Field(0, description="How many worker processes were launched.")
    other_load: Load | None = Field(None, description="Share of the cores' time that other processes took, 0 to 1.")
    cut: str = Field("", description="Why it ended before enough launches, or an empty string.")
    subject: str = Field("", description="The digest of all that it was made from; empty until it is evidence.")

    def find_reported(self, winner: str | None, speedup: Speedup | None) -> Finalist | None:
        """Return the finalist that a report describes; None if absent.

        This is the winner. Without a winner, it is the finalist with the decision's speed-up, or else the first one
        compared.
        """
        compared = [one for one in self.finalists if one.deciding is not None]
        won = [one for one in self.finalists if one.id == winner]
        decided = [one for one in compared if one.deciding == speedup]
        return next(iter((*won, *decided, *compared, *self.finalists)), None)


class ConfirmationResult(Confirmation, Derived):
    """A confirmation with its machine and time: it may be reported on another machine."""

    hardware: Hardware = Field(description="The machine that measured.")
    ended: AwareDatetime = Field(description="When all was measured.")
    operators: tuple[Operators, ...] = Field((), description="Of the source and of each finalist, at each shape.")
