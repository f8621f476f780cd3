"""How long a run is expected to take, from its budget, its plan and the forecast: the search and the confirmation."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from hone_runtime.values.artifact import Artifact
from kedro_hone.core.store.artifacts import Store
from kedro_hone.recipe.plan import Routes, reach_steps
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.plan.budget import limit_confirmation, scale_budget
from kedro_hone.search.plan.forecast import STEP_SECONDS, VALIDATION_SECONDS, Forecast

_START_SECONDS: Final = 1.5
"""The approximate time to start a worker and load a model."""


@dataclass(frozen=True)
class TimeLimits:
    """The longest times of a run, in seconds; infinite if the budget is unlimited.

    Attributes:
        search: Of building, validating and racing.
        confirmation: Of the confirmation, which follows.
    """

    search: float
    confirmation: float

    def describe(self) -> str:
        """Return the total as a clause, with its two parts."""
        confirmed = f"then {_write(self.confirmation)} to confirm"
        if math.isinf(self.search):
            return f"no limit to search, {confirmed} at most"
        total = _write(self.search + self.confirmation)
        return f"at most {total} in all: {_write(self.search)} to search, {confirmed}"


def find_limits(recipe: Recipe, source: Artifact, store: Store) -> TimeLimits:
    """Return the limits of a run of a recipe on a source model."""
    size = store.measure(source) if source.digest else 0
    return TimeLimits(search=scale_budget(recipe, size), confirmation=limit_confirmation(recipe, size))


@dataclass(frozen=True)
class Expectation:
    """The expected seconds of the work of a run; guesses for anything never measured.

    Attributes:
        steps: Of building each step, by its namespace.
        validations: Of validating each candidate, by its namespace.
        race: Of the race.
        confirmation: Of the confirmation up to its first look.
        limits: The longest times.
    """

    steps: dict[str, float]
    validations: dict[str, float]
    race: float
    confirmation: float
    limits: TimeLimits

    def find_rest(
        self,
        *,
        built: Collection[str] = (),
        validated: Collection[str] = (),
        past: Collection[str] = (),
        searched: float = 0.0,
        raced: float = 0.0,
    ) -> float:
        """Return the expected rest in seconds.

        Args:
            built: The namespaces of the steps that ended.
            validated: The namespaces of the candidates whose validation ended.
            past: The phases that ended, such as ``race``.
            searched: For how many seconds the search has worked.
            raced: For how many of them it has raced; then nothing is built any more.
        """
        rest = 0.0
        if "race" not in past:
            work = 0.0 if raced else _sum(self.steps, built) + _sum(self.validations, validated)
            left = self.limits.search - searched
            rest += max(0.0, min(work / len(os.sched_getaffinity(0)) + self.race - raced, left))
        if "confirm" not in past:
            rest += min(self.confirmation, self.limits.confirmation)
        return rest


def expect(recipe: Recipe, routes: Routes, source: Artifact, *, forecast: Forecast, limits: TimeLimits) -> Expectation:
    """Return the expected seconds of a run of some routes on a source model."""
    steps = reach_steps(routes, source.format)
    ends = [step for step in steps if step.ends]
    names = {step.namespace: step.adaptor.name for step in steps}
    seconds = {place: _choose(forecast.find_seconds(name), STEP_SECONDS) for place, name in names.items()}
    checks = (_choose(forecast.find_validation(step.adaptor.name), VALIDATION_SECONDS) for step in ends)
    shapes, race, confirm = len(recipe.shapes), recipe.race, recipe.confirm
    racing = min(len(ends), race.candidates or len(ends)) + 1
    rounds = race.rounds * racing * shapes * race.burst_ms / 1e3
    entrants = min(confirm.finalists, len(ends)) + 2
    waves = math.ceil(entrants / (len(os.sched_getaffinity(0)) + 1))
    launch = waves * _START_SECONDS + entrants * (confirm.rounds + 1) * shapes * confirm.burst_ms / 1e3
    return Expectation(
        steps=seconds,
        validations={step.namespace: found for step, found in zip(ends, checks, strict=True)},
        race=racing * _START_SECONDS + min(race.seconds, rounds),
        confirmation=confirm.looks[0] * launch,
        limits=limits,
    )


def _choose(known: float | None, default: float) -> float:
    return default if known is None else known


def _sum(seconds: dict[str, float], ended: Iterable[str]) -> float:
    return sum(seconds[name] for name in seconds.keys() - {*ended})


def _write(seconds: float) -> str:
    """Return a duration in seconds or minutes, such as ``48 s`` or ``11 min``."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"
