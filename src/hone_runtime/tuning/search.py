"""The state of a tuning: it validates choices of operators within a number of evaluations and a time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from .divergence import measure_divergence
from .engine import C, Engine, Outputs
from .judge import Judge

DROP = 0.01
"""The allowed drop if a job has none: the default of the gate."""
MARGIN = 0.5
"""The share of the limit that the drop on the search split may reach.

The gate compares the upper end of an interval with the limit, on other rows. A drop at the limit itself would thus fail
there. Also, the best of several candidates on the same rows looks better than it is. Half of the limit is left for
both."""
RESERVE = 0.1
"""The share of the step's time that is left for writing the result."""
SCORING = 0.5
"""The share of the step's time after which no further operator is scored."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The limits of a tuning.

    Attributes:
        limits: The allowed drop of each metric, by name: the recipe's ``gates.drop`` first, then ``gates.drops``.
        evaluations: The most validations with the recipe's metrics.
        seconds: The time limit of the step; None if it has none.
        clock: Returns the time in seconds.
    """

    limits: Mapping[str, float]
    evaluations: int = 15
    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic


def read_settings(job: Mapping[str, Any], judge: Judge, *, began: float) -> Settings:
    """Return the limits of a job.

    Args:
        job: The job of a step.
        judge: Its metrics, among them the recipe's own.
        began: When its function began, by ``time.monotonic``; the time since then is used up.

    Raises:
        UnsuitedError: As ``Judge.require``.
    """
    judge.require()
    limit, seconds = job.get("drop"), job.get("seconds")
    return Settings(
        limits={judge.metric: DROP if limit is None else float(limit), **judge.limits},
        evaluations=int(job["options"]["evaluations"]),
        seconds=None if seconds is None else float(seconds) - (time.monotonic() - began),
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """One validated choice of operators.

    Attributes:
        kept: The operators in int8.
        share: Their share of all operators that can be quantized.
        drops: The metrics of the source minus those of the candidate, on the search split, by name.
        time: The time of the candidate's operators over that of the source's, by the runtime's profile.
        holds: Whether each drop is within the accepted part of its limit.
    """

    kept: frozenset[str]
    share: float
    drops: Mapping[str, float]
    time: float
    holds: bool


class ExhaustedError(Exception):
    """No further evaluation is allowed: their number or the time is used up."""


@dataclass
class Search(Generic[C]):
    """Builds and validates candidates, and records each evaluation.

    Attributes:
        points: The evaluations so far, in order.
        scores: The divergence of each operator that was scored: of the outputs if it alone is quantized.
    """

    engine: Engine[C]
    settings: Settings
    points: list[Point] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    _slowest: float = 0.0
    _source_time: float = 0.0
    _own_times: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._started = self.settings.clock()
        self.names = tuple(self.engine.operators)
        self.base = self.engine.measure_source()
        self.accepted = {name: limit * MARGIN for name, limit in self.settings.limits.items()}

    @property
    def best(self) -> Point | None:
        """The point within the limits whose operators in int8 take the largest time in the source; None if absent."""
        held = [point for point in self.points if point.holds]
        return max(held, key=lambda point: (self.sum_times(point.kept), point.share), default=None)

    def evaluate(self, kept: Collection[str]) -> bool:
        """Build a candidate with these operators in int8, validate it, and return whether it is within the limits.

        Raises:
            ExhaustedError: No further evaluation is allowed.
        """
        self._require_room()
        started, chosen = self.settings.clock(), frozenset(kept)
        candidate = self.engine.build(frozenset(self.names) - chosen)
        found = self.engine.measure(candidate)
        drops = {name: self.base[name] - found[name] for name in self.accepted}
        held = all(math.isfinite(drops[name]) and drops[name] <= each for name, each in self.accepted.items())
        share, whole = len(chosen) / len(self.names), len(chosen) == len(self.names)
        relative = math.nan if held and whole else self._time(candidate)  # then nothing is left to do
        self.points.append(Point(kept=chosen, share=share, drops=drops, time=relative, holds=held))
        self._slowest = max(self._slowest, self.settings.clock() - started)
        self._print_last()
        return held

    def _print_last(self) -> None:
        last = self.points[-1]
        timed = f", {last.time:.2f} of the time of fp32" if math.isfinite(last.time) else ""
        print(  # noqa: T201 (the log)
            f"evaluation {len(self.points)} of at most {self.settings.evaluations}: {len(last.kept)} of "
            f"{len(self.names)} operators in int8, {self.explain(last)}, {'holds' if last.holds else 'fails'}{timed}",
            flush=True,
        )

    def explain(self, point: Point) -> str:
        """Return the drop of each metric as a clause; if the point fails, also the accepted drop."""
        drops = (
            f"{name} drops by {drop:.4f}" + ("" if point.holds else f", where {self.accepted[name]:g} is accepted")
            for name, drop in point.drops.items()
        )
        return "; ".join(drops)

    def score(self) -> Mapping[str, float]:
        """Return each operator's divergence, computed once; infinite for NaN, and absent if the time ran out."""
        if self.scores:
            return self.scores
        expected = _copy(self.engine.run(self.engine.open_source()))
        axes = self.engine.find_class_axes(expected)
        for name in self.names:
            if self._find_left(SCORING) <= 0:
                print(f"{len(self.scores)} of {len(self.names)} operators were scored in time", flush=True)  # noqa: T201
                break
            self.scores[name] = measure_divergence(expected, self.engine.run(self.engine.isolate(name)), axes)
        worst = sorted(self.scores.items(), key=lambda item: -item[1])[:5]
        listed = ", ".join(f"{name} {score:.2g}" for name, score in worst)
        print(f"scored {len(self.scores)} operators; the largest divergences: {listed}", flush=True)  # noqa: T201
        return self.scores

    def find_time(self, name: str) -> float:
        """Return the seconds of an operator in the source; the median of the known ones if it is not known."""
        if not self._own_times:
            known = {name: value for name, value in self.engine.list_times().items() if value > 0}
            middle = sorted(known.values())[len(known) // 2] if known else 1.0
            self._own_times = {each: known.get(each, middle) for each in self.names}
        return self._own_times[name]

    def sum_times(self, names: Collection[str]) -> float:
        """Return the seconds of some operators in the source."""
        return math.fsum(self.find_time(name) for name in names)

    def _time(self, candidate: C) -> float:
        seconds = self.engine.time(candidate)
        if not self._source_time:
            self._source_time = self.engine.time(self.engine.open_source())
        return seconds / self._source_time if self._source_time else math.nan

    def _require_room(self) -> None:
        if len(self.points) >= self.settings.evaluations:
            raise ExhaustedError(f"{self.settings.evaluations} evaluations")
        if self.points and self._find_left(1 - RESERVE) <= self._slowest:
            raise ExhaustedError("the time limit")

    def _find_left(self, share: float) -> float:
        """Return the seconds until a share of the step's time is used up."""
        if self.settings.seconds is None:
            return math.inf
        return self._started + share * self.settings.seconds - self.settings.clock()


def _copy(outputs: Outputs) -> Outputs:
    return {name: array.copy() for name, array in outputs.items()}
