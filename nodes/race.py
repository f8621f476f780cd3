"""The race: finds the fastest candidates with few measurements.

The race only chooses the finalists: its speedups are biased upwards, since they are the best of many. Candidates are
raced against the source in interleaved rounds, until only as many as can be confirmed are left. After each block of
rounds the candidates that cannot win are dropped (racing as defined by O. Maron and A. W. Moore, "Hoeffding Races",
NIPS 1993). As many as fit the recipe's memory run at once: one heat.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format
from hone_runtime.values.measurement import BUDGET, Interval, RaceResult, Standing, Status, Validation, Validations
from hone_runtime.values.samples import Reference
from kedro_hone.core.machine.processes import read_load, share_of_others
from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.core.stats.speed import combine_shapes, find_dropped
from kedro_hone.report.wording import describe_speed
from kedro_hone.search.context import RunContext, explain_source_failure, measure_alone
from kedro_hone.search.plan.budget import Phase, start_budget
from kedro_hone.search.plan.forecast import UNKNOWN, Forecast
from kedro_hone.search.race.launches import Contestant, measure_round, start_contestants
from kedro_hone.search.race.timings import SOURCE, Timings
from kedro_hone.search.validation.validation import validate_until_valid
from kedro_hone.search.verdict.provability import is_provable
from kedro_hone.search.verdict.verdict import can_win, misses_tail

logger = open_logger(__name__)


def race(
    *, context: RunContext, reference: Reference, validations: Validations, forecast: Forecast = UNKNOWN
) -> RaceResult:
    """Race the valid candidates, and return the standings, best first, with all the validations.

    If none is valid, candidates that were built but not validated because of the budget are validated until one is
    valid. Routes that begin with an alternative converter for another format than the source's are left out.
    """
    known = [one for one in validations.validations if _is_of(context.source.format, one)]
    promising = sorted(known, key=lambda one: (-forecast.find_speed(one.candidate.route), one.candidate.id))
    tried = {one.candidate.id: one for one in validate_until_valid(promising, context, reference=reference)}
    racing = Race([*tried.values()], context)
    with measure_alone(context.run, "race", artifacts=[context.source, *racing.artifacts.values()]) as took:
        budget_ended = racing.run()
    return RaceResult(
        validations=tuple(tried[one.candidate.id] for one in known),
        standings=racing.rank(),
        source_latency=racing.timings.summarize(SOURCE),
        rounds=len(racing.timings.rounds),
        budget_ended=budget_ended,
        timings=racing.timings.store(context.store, "race"),
        workers=racing.timings.workers,
        **took,
    )


def _is_of(form: Format, validation: Validation) -> bool:
    """Return whether a candidate's route can start from this format; alternatives for another format are not tried."""
    first = read_catalogue().adaptors.get(next(iter(validation.candidate.route), ""))
    return first is None or not first.alternative or form in first.accepts


class Race:
    """The race of all valid candidates: those waiting, those running with the source, and the results of the others.

    Of candidates with the same files, runtime and run options, only the one with the shortest route is measured for
    all. A candidate that cannot win, since it may not be published or already fails a gate, races too, but never
    displaces one that can. Nor does one whose drop the gate split probably cannot prove displace one whose drop it can.

    Args:
        validations: The validations of all candidates, in the order of launches.
        context: The context of the run.
    """

    def __init__(self, validations: Sequence[Validation], context: RunContext) -> None:
        self.artifacts: dict[str, Artifact] = {}  # the racing artifacts, by the candidate's id
        self.timings = Timings()
        self._context, self._recipe, self._budget = context, context.recipe, start_budget(context)
        self._memory: dict[str, int] = {}
        self._running: dict[str, Contestant] = {}
        self._left: dict[str, dict[str, Any]] = {}
        self._measured = 0.0  # seconds
        self._load = read_load()
        self._unable, self._unproved = set[str](), set[str]()
        valid = [one for one in validations if one.status is Status.MEASURED]
        originals: dict[str, str] = {}
        for one in sorted(valid, key=lambda one: (not one.publishable, len(one.candidate.route), one.candidate.id)):
            name, outcome = one.candidate.id, one.candidate.outcome
            if not isinstance(outcome, Artifact):
                continue
            if (original := originals.setdefault(outcome.digest, name)) != name:
                self._leave(name, Status.REFUSED, f"nothing-to-do: the same artifact as {original}")
                continue
            self.artifacts[name] = outcome
            self._memory[name] = one.peak_memory_bytes or one.size_bytes or 0
            self._unable |= set() if can_win(one, context.recipe.gates) else {name}
            self._unproved |= set() if is_provable(one, context) else {name}
        ordered = [one.candidate.id for one in valid if one.candidate.id in self.artifacts]
        ordered.sort(key=self._unable.__contains__)
        self._waiting = ordered[: self._recipe.race.candidates]
        for name in ordered[len(self._waiting) :]:
            self._leave(name, Status.NOT_TRIED, "the recipe's race.candidates was reached")

    def run(self) -> bool:
        """Run heats until the race is decided; return whether the budget ended it before all were tried and ranked.

        Raises:
            HoneError: ``source-failed``.
        """
        order = random.Random(self._recipe.seed)  # noqa: S311 - an order of measuring, not a secret
        decided, heats = True, 0
        with ExitStack() as workers:
            self._launch({SOURCE: self._context.source}, workers)
            while self._waiting:
                if (reason := self._find_end()) and (
                    (heats and self._context.run.is_stopped()) or self._list_confirmable()
                ):
                    for name in self._waiting:
                        self._leave(name, Status.NOT_TRIED, reason, slug=BUDGET)
                    return True
                self._drop_slowest()
                heat, heats = self._fill_heat(), heats + 1
                logger.info("launched  for the race: the source and %s", ", ".join(heat))
                self._launch({name: self.artifacts[name] for name in heat}, workers)
                decided = self._run_heat(order)
        return not decided

    def rank(self) -> tuple[Standing, ...]:
        """Return the standing of every candidate, best first; those that left come after those that finished."""
        return tuple(sorted(map(self._find_standing, {**self.artifacts, **self._left}), key=_find_place))

    def _launch(self, artifacts: Mapping[str, Artifact], workers: ExitStack) -> None:
        burst_ms = self._recipe.race.burst_ms
        self._running |= start_contestants(
            artifacts, self._context, burst_ms=burst_ms, timings=self.timings, stack=workers, compares=True
        )
        self._drop_failed("when it was launched for the race")

    def _leave(self, name: str, status: Status, reason: str = "", *, slug: str = "") -> None:
        """Take a candidate out of the race and end its worker."""
        self._left[name] = {"status": status, "reason": reason, "slug": slug}
        if name in self._running:
            self._running.pop(name).stack.close()

    def _fill_heat(self) -> list[str]:
        """Start as many of the waiting candidates as fit next to the running ones and the source, at least one."""
        free = (self._recipe.race.memory_mb << 20) - sum(one.session.memory_bytes() for one in self._running.values())
        heat: list[str] = []
        while self._waiting and (not heat or self._memory[self._waiting[0]] <= free):
            heat.append(self._waiting.pop(0))
            free -= self._memory[heat[-1]]
        return heat

    def _run_heat(self, order: random.Random) -> bool:
        """Measure in blocks of rounds, at least one; return whether no more blocks were needed."""
        limits, finalists = self._recipe.race, self._recipe.confirm.finalists
        rounds, decided = 0, len(self._running) <= 1
        while not decided:
            begun, block = time.monotonic(), min(limits.block, limits.rounds - rounds)
            for _ in range(block):
                measure_round(self._running.values(), order=order, timings=self.timings)
            rounds += block
            self._measured += time.monotonic() - begun
            self._context.run.note("rounds", rounds=len(self.timings.rounds), running=sorted(self._running))
            self._drop_failed("in the race")
            self._drop_slow()
            best = {"best": self._describe_best()}
            logger.info("raced     %d rounds, %d left", len(self.timings.rounds), len(self._running) - 1, extra=best)
            rivals = self._running.keys() - {SOURCE} - self._find_unable()
            most = max(len(rivals & self._unproved), len(rivals - self._unproved))
            decided = most <= finalists or rounds >= limits.rounds
            if self._find_end():
                break
        return decided

    def _find_end(self) -> str:
        """Return why measuring ends, or an empty text; launches count for the search's budget, too."""
        if self._measured >= self._recipe.race.seconds:
            return f"the race's budget of {self._recipe.race.seconds:.3g} s was spent"
        return self._budget.find_reason(Phase.RACE, None) or ""

    def _list_confirmable(self) -> set[str]:
        """Return the candidates to confirm if the race ends now: only those that can win, if such a candidate waits."""
        measured = {name for name, left in self._left.items() if left["status"] is Status.MEASURED}
        candidates = (self._running.keys() | measured) - {SOURCE}
        return candidates - self._unable if {*self._waiting} - self._unable else candidates

    def _drop_failed(self, when: str) -> None:
        for name, failed in self.timings.failures.items():
            if name == SOURCE:
                raise explain_source_failure(failed, when)
            if name not in self._left:
                self._leave(name, Status.FAILED, f"{failed.failure}: {failed.reason}", slug=failed.failure)

    def _drop_slow(self) -> None:
        """Drop candidates that are too slow, each compared with those that are at least as likely to win as it is."""
        objectives, finalists = self._find_objectives(), self._recipe.confirm.finalists
        unable = self._find_unable()
        able = {name: one for name, one in objectives.items() if name not in unable}
        proved = {name: one for name, one in able.items() if name not in self._unproved}
        for rivals, group in ((proved, {*proved}), (able, able.keys() - proved.keys()), (objectives, unable)):
            best = max((interval.estimate for interval in rivals.values()), default=1.0)
            for name in sorted(find_dropped(rivals, keep=finalists) & group):
                rounds, mine = len(self.timings.select(name)), objectives[name].estimate
                reason = f"dropped after {rounds} rounds: {mine:.2f}x, when the leader stood at {best:.2f}x"
                self._leave(name, Status.DROPPED, reason)
                logger.info("dropped   %s after %d rounds (%.2fx)", name, rounds, mine)

    def _drop_slowest(self) -> None:
        """Before the next heat, retain only as many as can be confirmed, and as many that probably cannot be proved."""
        objectives, unable = self._find_objectives(), self._find_unable()
        ranked = sorted(objectives.keys() - unable, key=lambda name: (-objectives[name].estimate, name))
        for unproved in (False, True):
            group = [name for name in ranked if (name in self._unproved) is unproved]
            for name in group[self._recipe.confirm.finalists :]:
                self._leave(name, Status.MEASURED)
        for name in sorted(objectives.keys() & unable):
            self._leave(name, Status.MEASURED)

    def _find_unable(self) -> set[str]:
        """Return those that cannot win: by their validation, or since their calls take too long in the race so far."""
        gates = self._recipe.all_gates
        if not gates.latency_p99_ms:
            return self._unable
        rivals = self._running.keys() - {SOURCE}
        return self._unable | {name for name in rivals if misses_tail(self.timings.summarize(name), gates)}

    def _describe_best(self) -> str:
        """Return the best running candidate with its interval, for the display; empty if absent."""
        unable = self._find_unable()
        objectives = {name: one for name, one in self._find_objectives().items() if name not in unable}
        best = max(objectives, key=lambda name: objectives[name].estimate, default=None)
        load = share_of_others(self._load)
        return f"best so far {describe_speed(best, objectives[best], load=load)}" if best else ""

    def _find_objectives(self) -> dict[str, Interval]:
        return {name: self._find_objective(name) for name in self._running if name != SOURCE}

    def _find_objective(self, name: str) -> Interval:
        """Return the interval of the recipe's objective over a candidate's rounds."""
        goal, weights = self._recipe.goal, self._recipe.race.weights or None
        combined = combine_shapes(self._find_ratios(name), goal.objective, weights, shapes=goal.shapes)
        return interval_of_ratios(combined, confidence=self._recipe.gates.confidence)

    def _find_ratios(self, name: str) -> dict[str, NDArray[np.float64]]:
        """Return, by shape, the time of the source over the candidate's for each of its rounds."""
        return {shape: np.divide(*self.timings.pair(name, shape)) for shape in self._recipe.shapes}

    def _find_standing(self, name: str) -> Standing:
        rounds = len(self.timings.select(name))
        ratios = self._find_ratios(name) if rounds else {}
        return Standing(
            id=name,
            rounds=rounds,
            ratios={shape: float(np.exp(np.log(values).mean())) for shape, values in ratios.items()},
            latency=self.timings.summarize(name),
            objective=self._find_objective(name) if rounds > 1 else None,  # one round has no interval
            **self._left.get(name, {"status": Status.MEASURED}),
        )


def _find_place(standing: Standing) -> tuple[bool, float, str]:
    finished = standing.status is Status.MEASURED
    return (not finished, -standing.objective.estimate if standing.objective else 0.0, standing.id)
