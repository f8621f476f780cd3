"""Heats: candidates raced against the source in interleaved rounds, until those are left that can be confirmed.

After each block of rounds the candidates that cannot win are dropped (racing in the sense of O. Maron and A. W. Moore,
"Hoeffding Races", NIPS 1993). As many run at once as fit the recipe's memory: one heat.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kedro_hone.comparing.setting import Setting, explain_source_failure
from kedro_hone.comparing.timings import SOURCE, count_workers, summarize_latency
from kedro_hone.core import stats
from kedro_hone.core.measuring.launches import Entrant, enter
from kedro_hone.core.measuring.rounds import Timings, measure_round
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Interval, RaceResult, Standing, Status, Validation
from kedro_hone.recipe.schema import Recipe

logger = open_logger(__name__)


@dataclass
class Field:
    """The race at one moment: who waits, who runs, and what became of the others.

    Attributes:
        racers: The candidates that may race, by id.
        waiting: Those that have not run yet, in the order in which they will.
        running: Those that are measured, with the source.
        stacks: Each ends one worker.
        left: The status, the reason and the slug of those that left.
        workers: How many worker processes were launched.
    """

    racers: Mapping[str, Validation]
    waiting: list[str]
    running: dict[str, Entrant] = field(default_factory=dict)
    stacks: dict[str, ExitStack] = field(default_factory=dict)
    left: dict[str, tuple[Status, str, str]] = field(default_factory=dict)
    timings: Timings = field(default_factory=Timings)
    workers: int = 0

    @property
    def artifacts(self) -> dict[str, Artifact]:
        """What the racers are, by id."""
        outcomes = {name: validation.candidate.outcome for name, validation in self.racers.items()}
        return {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Artifact)}

    def leave(self, name: str, status: Status, reason: str, *, slug: str = "") -> None:
        """Take a candidate out of the race and end its worker."""
        self.left[name] = (status, reason, slug)
        self.running.pop(name, None)
        stack = self.stacks.pop(name, None)
        if stack is not None:
            stack.close()


def line_up(validations: Iterable[Validation], setting: Setting) -> Field:
    """Return the race of all candidates before its start; twins, and those there is no place for, have left already."""
    racers, twins = select_racers([*validations])
    order = [v.candidate.id for v in racers]
    state = Field(racers=dict(zip(order, racers, strict=True)), waiting=order[: setting.recipe.race.candidates])
    for late in order[len(state.waiting) :]:
        state.leave(late, Status.NOT_TRIED, "the recipe's race.candidates was reached")
    for twin, original in twins.items():
        state.leave(twin, Status.REFUSED, f"nothing-to-do: the same artifact as {original}")
    return state


def select_racers(validations: Sequence[Validation]) -> tuple[list[Validation], dict[str, str]]:
    """Return who may race, in a stable order, and for each twin the id of the candidate that races for it.

    Twins have the same files, runtime and run options.
    """
    racers: dict[str, Validation] = {}
    twins: dict[str, str] = {}
    for validation in sorted(validations, key=lambda v: (len(v.candidate.route), v.candidate.id)):
        outcome = validation.candidate.outcome
        if validation.status is not Status.MEASURED or not isinstance(outcome, Artifact):
            continue
        first = racers.setdefault(outcome.digest, validation)
        if first is not validation:
            twins[validation.candidate.id] = first.candidate.id
    return list(racers.values()), twins


def run_heats(state: Field, setting: Setting) -> bool:
    """Run heats until nobody waits and the race is decided.

    Returns:
        Whether the budget ended it before all were tried and the finalists were found.

    Raises:
        HoneError: ``source-failed``.
    """
    recipe, measured = setting.recipe, 0.0
    order = random.Random(recipe.seed)  # noqa: S311 - an order of measuring, not a secret
    with ExitStack() as everything:
        _launch({SOURCE: setting.source}, state, setting, everything)
        while state.waiting:
            heat = _fill_heat(state, recipe.race.memory_mb)
            _launch({name: state.artifacts[name] for name in heat}, state, setting, everything)
            seconds, decided = _run_heat(state, setting, order, budget=recipe.race.seconds - measured)
            measured += seconds
            if measured >= recipe.race.seconds:
                for name in state.waiting:
                    state.leave(name, Status.NOT_TRIED, name_spent(recipe.race.seconds))
                return bool(state.waiting) or not decided
            if state.waiting:
                _keep_best(state, setting)
    return False


def name_spent(seconds: float) -> str:
    """Return why a candidate was not tried when the budget of so many seconds was spent."""
    return f"the budget of {seconds:g} s was spent"


def say_budget(result: RaceResult, seconds: float) -> str:
    """Return how many candidates a race did not try for its budget of so many seconds, or an empty string."""
    untried = sum(standing.reason == name_spent(seconds) for standing in result.standings)
    if not (result.budget_ended and untried):
        return ""
    count = "1 candidate was" if untried == 1 else f"{untried} candidates were"
    return f"the race's budget of {seconds:g} s was spent: {count} not tried"


def _run_heat(state: Field, setting: Setting, order: random.Random, *, budget: float) -> tuple[float, bool]:
    """Measure in blocks of rounds; return the seconds that were spent, and whether no more of them were wanted."""
    recipe, begun, rounds, decided = setting.recipe, time.monotonic(), 0, len(state.running) <= 1
    while not decided:
        for _ in range(recipe.race.block):
            measure_round(state.running.values(), setting.shapes, order=order, timings=state.timings)
        rounds += recipe.race.block
        setting.run.note("rounds", rounds=state.timings.count, running=sorted(state.running))
        _drop(state, setting)
        logger.info("raced     %d rounds, %d left", state.timings.count, len(state.running) - 1)
        decided = len(state.running) - 1 <= recipe.confirm.finalists or rounds >= recipe.race.rounds
        if time.monotonic() - begun >= budget:
            break
    return time.monotonic() - begun, decided


def _fill_heat(state: Field, memory_mb: int) -> list[str]:
    """Take as many of the waiting as fit next to those that run, the source too, one at least."""

    def weigh(name: str) -> int:
        validation = state.racers[name]
        return validation.peak_memory_bytes or validation.size_bytes or 0

    free = (memory_mb << 20) - sum(entrant.session.memory_bytes() for entrant in state.running.values())
    heat: list[str] = []
    while state.waiting and (not heat or weigh(state.waiting[0]) <= free):
        name = state.waiting.pop(0)
        free -= weigh(name)
        heat.append(name)
    return heat


def _launch(artifacts: Mapping[str, Artifact], state: Field, setting: Setting, everything: ExitStack) -> None:
    stacks = {name: everything.enter_context(ExitStack()) for name in artifacts}
    entrants, failures = enter(
        artifacts,
        shapes=setting.batches,
        burst_ms=setting.recipe.race.burst_ms,
        launching=setting.launching,
        stacks=stacks,
    )
    state.stacks |= stacks
    state.running |= entrants
    state.workers += count_workers(entrants, failures)
    if SOURCE in failures:
        raise explain_source_failure(failures[SOURCE], "when it was launched for the race")
    for name, failed in failures.items():
        state.leave(name, Status.FAILED, f"{failed.failure}: {failed.reason}", slug=failed.failure)


def _drop(state: Field, setting: Setting) -> None:
    for name, failed in list(state.timings.failures.items()):
        if name == SOURCE:
            raise explain_source_failure(failed, "in the race")
        if name in state.running:
            state.leave(name, Status.FAILED, f"{failed.failure}: {failed.reason}", slug=failed.failure)
    intervals = {name: _find_objective(state.timings, name, setting.recipe) for name in state.running if name != SOURCE}
    best = max((interval.estimate for interval in intervals.values()), default=1.0)
    for name in sorted(stats.find_dropped(intervals, keep=setting.recipe.confirm.finalists)):
        rounds, mine = len(state.timings.medians(name, setting.shapes[0])), intervals[name].estimate
        state.leave(
            name, Status.DROPPED, f"dropped after {rounds} rounds: {mine:.2f}x, when the leader stood at {best:.2f}x"
        )
        logger.info("dropped   %s after %d rounds (%.2fx)", name, rounds, mine)


def _keep_best(state: Field, setting: Setting) -> None:
    """Before the next heat, keep only as many as can be confirmed."""
    intervals = {name: _find_objective(state.timings, name, setting.recipe) for name in state.running if name != SOURCE}
    ranked = sorted(intervals, key=lambda name: intervals[name].estimate, reverse=True)
    for name in ranked[setting.recipe.confirm.finalists :]:
        state.leave(name, Status.MEASURED, "")


def _find_objective(timings: Timings, name: str, recipe: Recipe) -> Interval:
    """Return the interval of the recipe's objective over the rounds that a candidate took part in."""
    ratios = stats.combine_shapes(
        {shape: _find_ratios(timings, name, shape) for shape in recipe.shapes},
        recipe.race.objective,
        recipe.race.weights or None,
    )
    return stats.interval_of_ratios(ratios, confidence=recipe.gates.confidence)


def _find_ratios(timings: Timings, name: str, shape: str) -> NDArray[np.float64]:
    """Return source over candidate for each round that the candidate took part in; these are the source's last ones."""
    mine = np.asarray(timings.medians(name, shape))
    start = timings.starts.get(name, 0)
    source = np.asarray(timings.medians(SOURCE, shape), dtype=np.float64)
    return np.asarray(source[start : start + len(mine)] / mine, dtype=np.float64)


def rank(state: Field, setting: Setting) -> tuple[Standing, ...]:
    """Return where every racer stands after ``run_heats``, best first; who left comes after who finished."""
    standings = []
    for name in [*state.racers, *(name for name in state.left if name not in state.racers)]:
        status, reason, slug = state.left.get(name, (Status.MEASURED, "", ""))
        measured = bool(state.timings.rounds.get(name))
        ratios = {shape: _find_ratios(state.timings, name, shape) for shape in setting.shapes} if measured else {}
        standings.append(
            Standing(
                id=name,
                status=status,
                reason=reason,
                slug=slug,
                rounds=len(state.timings.medians(name, setting.shapes[0])),
                ratios={shape: float(np.exp(np.log(values).mean())) for shape, values in ratios.items()},
                latency=summarize_latency(state.timings, name, setting.shapes),
                objective=_find_objective(state.timings, name, setting.recipe) if measured else None,
            )
        )
    return tuple(sorted(standings, key=_standing_key))


def _standing_key(standing: Standing) -> tuple[bool, float, str]:
    finished = standing.status is Status.MEASURED
    return (not finished, -standing.objective.estimate if standing.objective else 0.0, standing.id)
