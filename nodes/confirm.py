"""Confirm: measure the finalists and the source again in fresh processes, and the source against itself (A/A).

Launches continue until the data decide which is faster. Launches of one program differ far more than rounds within a
launch (memory layout, thread placement, compilation), so one launch gives one number: T. Kalibera and R. Jones,
"Rigorous benchmarking in reasonable time", ISMM 2013. It is the median of the ratios to the source in the same round,
since the machine's speed differs from round to round.

It has a time limit (``confirm.seconds``): finalists that are undecided then stay so, with their measurements.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import product
from typing import Any

from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.hardware import Hardware
from hone_runtime.values.judgement import GateOutcome
from hone_runtime.values.measurement import (
    ConfirmationResult,
    Finalist,
    RaceResult,
    Speedup,
    Status,
)
from hone_runtime.values.operators import Operators
from kedro_hone.core.gates import Measurements
from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.core.stats.plan import Finding, LaunchPlan, next_step
from kedro_hone.core.stats.ranking import Loss, rank_finalists
from kedro_hone.core.stats.speed import find_noise_floor, ratio_in_launch
from kedro_hone.search.context import RunContext, explain_source_failure, measure_alone
from kedro_hone.search.plan.budget import bound_confirmation
from kedro_hone.search.plan.confirmation import (
    find_remaining,
    format_expected_time,
    format_look,
    format_plan,
    guess_launch,
)
from kedro_hone.search.race.launches import Contestant, measure_round, start_contestants
from kedro_hone.search.race.operators import count_operators
from kedro_hone.search.race.timings import SOURCE, Timings
from kedro_hone.search.verdict.provability import choose_finalists, is_provable
from kedro_hone.search.verdict.verdict import can_win, list_limits, misses_tail

logger = open_logger(__name__)

CONTROL = "source again"
"""The source's second worker in each launch: its difference from the first is noise (A/A)."""


def confirm(*, context: RunContext, result: RaceResult) -> ConfirmationResult:
    """Measure the best of the race again, in as many launches as a decision needs; finalists come fastest first."""
    validated = result.validated
    measured = [one.id for one in result.standings if one.status is Status.MEASURED]
    # Those that cannot win displace no finalist.
    slow = {one.id for one in result.standings if misses_tail(one.latency, context.recipe.all_gates)}
    unable = {name for name in measured if name in slow or not can_win(validated[name], context.recipe.gates)}
    measured.sort(key=unable.__contains__)
    safe = {name for name in measured if name not in unable and is_provable(validated[name], context)}
    names = choose_finalists(measured, safe, count=context.recipe.confirm.finalists)
    artifacts = {name: o for name in names if isinstance(o := validated[name].candidate.outcome, Artifact)}
    chosen = result.choice
    confidence = chosen.confidence if chosen else context.recipe.gates.confidence
    losses = {name: validated[name].loss for name in artifacts}
    limit = bound_confirmation(context) if artifacts else 0.0
    launches = Launches(artifacts, context, confidence=confidence, losses=losses, limit=limit)
    took: dict[str, Any] = {"seconds": 0.0}
    if artifacts and not chosen:  # a person's choice may follow days after the race
        _warn(context, Measurements(id=SOURCE, other_load=result.other_load))
    if artifacts:
        logger.info("confirm   %s", format_plan(len(artifacts), context.recipe.confirm.looks))
        valid, load = [validated[name] for name in artifacts], result.other_load or 0.0
        expected = guess_launch(context, valid, result.source_latency, load=load)
        said = format_expected_time(expected, context.recipe.confirm.looks, limit=limit, load=load)
        remaining = find_remaining(expected, context.recipe.confirm.looks, count=0, left=limit)
        logger.info("confirm   %s", said, extra={"remaining": remaining})
        with measure_alone(context.run, "confirm", artifacts=[context.source, *artifacts.values()]) as took:
            launches.run()
    host = Hardware.model_validate(read_host(), from_attributes=True)
    return ConfirmationResult(
        finalists=launches.describe(),
        source_latency=launches.timings.summarize(SOURCE) or result.source_latency,
        control=launches.compare_control(),
        launches=launches.count,
        cut=launches.cut,
        looks=sum(look <= launches.count for look in context.recipe.confirm.looks),
        timings=launches.timings.store(context.store, "confirm"),
        workers=launches.timings.workers,
        operators=tuple(launches.operators),
        hardware=host.model_copy(update={"threads": context.recipe.thread_count}),
        ended=dt.datetime.now(dt.UTC),
        **took,
    )


class Launches:
    """All launches of the finalists with the source, their measurements, and the decisions."""

    def __init__(
        self,
        artifacts: Mapping[str, Artifact],
        context: RunContext,
        *,
        confidence: float,
        losses: Mapping[str, Loss],
        limit: float = math.inf,
    ) -> None:
        self.timings, self.count, self.cut, self._took = Timings(), 0, "", 0.0
        self.operators: list[Operators] = []
        self._limit, self._ends, self._ignores_stop = limit, math.inf, False
        self._artifacts, self._context, self._confidence, self._losses = artifacts, context, confidence, losses
        self._ratios: dict[str, dict[str, list[float]]] = {}  # by id and shape, source time over its time in each
        self._findings: dict[str, Finding] = {}

    def run(self) -> None:
        """Launch the finalists as often as a decision needs, until the recipe's last look or time limit.

        An interrupted launch is discarded: some finalists would have more rounds in it than others.

        Raises:
            HoneError: ``source-failed``.
        """
        recipe, failures = self._context.recipe, self.timings.failures
        plan = LaunchPlan(
            finalists=len(self._artifacts),
            threshold=recipe.gates.speedup,
            confidence=self._confidence,
            looks=recipe.confirm.looks,
            objective=recipe.goal.objective,
            weights=recipe.race.weights or None,
            shapes=recipe.goal.shapes,
        )
        order = random.Random(recipe.seed + 1)  # noqa: S311 - an order of measuring, not a secret
        running, until = [*self._artifacts], plan.looks[0]
        self._ignores_stop = self._context.run.is_stopped()  # stopped before: in order to confirm
        self._ends = time.monotonic() + self._limit
        while running and self.count < until and not self.cut:
            while self.count < until and not self.cut:
                began, left = time.monotonic(), [name for name in running if name not in failures]
                if not left:
                    return
                why = self._find_end()
                if not why:
                    before = self.count
                    self._launch(left, order)
                    why = self._find_end() if self.count == before or self.count < until else ""
                if why:
                    self.cut = f"the confirmation {why} after {self.count} of {until} launches"
                    logger.warning("confirm   %s", self.cut)
                else:
                    self._note_launch(time.monotonic() - began, until, plan)
            if self.count == 0:
                return
            measured = {name: self._ratios[name] for name in self._artifacts if name not in failures}
            step = next_step(plan, control=self._ratios[CONTROL], finalists=measured)
            running, self._findings = [*step.undecided], step.findings
            if not self.cut:
                until = self.count + step.launches
                logger.info("confirmed %s", format_look(step, count=self.count, looks=plan.looks))

    def _note_launch(self, seconds: float, until: int, plan: LaunchPlan) -> None:
        self._took += seconds
        left = self._ends - time.monotonic()
        remaining = find_remaining(self._took / self.count, plan.looks, count=self.count, left=left)
        logger.info("launched  %d of %d in %.0f s", self.count, until, seconds, extra={"remaining": remaining})

    def _find_end(self) -> str:
        """Return why no launch is started or completed any more, or an empty text."""
        if not self._ignores_stop and self._context.run.is_stopped():
            return "was interrupted"
        if time.monotonic() < self._ends:
            return ""
        return f"reached its limit of {self._limit:.0f} s (hone.confirm.seconds)"

    def describe(self) -> tuple[Finalist, ...]:
        """Return the results of each finalist, best first; failed ones come last, with the reason."""
        recipe = self._context.recipe
        ranked = rank_finalists(
            {name: self._ratios[name] for name in self._artifacts if name in self._ratios},
            objective=recipe.goal.objective,
            weights=recipe.race.weights or None,
            shapes=recipe.goal.shapes,
            confidence=recipe.gates.confidence,
            losses=self._losses,
        )
        names = [*ranked, *(name for name in self._artifacts if name not in ranked)]
        return tuple(sorted(map(self._describe, names), key=lambda one: bool(one.reason)))

    def compare_control(self) -> tuple[Speedup, ...]:
        """Return the speed-up of the source over itself at each shape; empty after fewer than two launches."""
        if self.count < 2:
            return ()
        confidence, control = self._context.recipe.gates.confidence, self._ratios[CONTROL]
        ratios = {shape: interval_of_ratios(values, confidence=confidence) for shape, values in control.items()}
        return tuple(
            Speedup(shape=shape, ratio=ratio, noise_floor=find_noise_floor(ratio), launches=self.count)
            for shape, ratio in ratios.items()
        )

    def _launch(self, names: Sequence[str], order: random.Random) -> None:
        """Start all in fresh processes, measure some rounds, and store one ratio for each; none if interrupted."""
        context, confirm, timings = self._context, self._context.recipe.confirm, Timings()
        entrants = {SOURCE: context.source, CONTROL: context.source, **{name: self._artifacts[name] for name in names}}
        shuffled = [*entrants.items()]
        order.shuffle(shuffled)
        with ExitStack() as stack:
            entered = start_contestants(
                dict(shuffled),
                context,
                burst_ms=confirm.burst_ms,
                timings=timings,
                stack=stack,
                interface=True,
                stopped=lambda: bool(self._find_end()),
            )
            for _ in range(confirm.rounds):
                if self._find_end():
                    break
                measure_round(entered.values(), order=order, timings=timings)
            if not (ended := self._find_end()):
                self._count_operators([one for name, one in entered.items() if name not in timings.failures])
        if ended:
            self.timings.workers += timings.workers
            return
        if lost := {SOURCE, CONTROL} & set(timings.failures):
            raise explain_source_failure(timings.failures[lost.pop()], "while the finalists were confirmed")
        self.count += 1
        self.timings.workers += timings.workers
        self.timings.failures |= timings.failures
        lasted = [name for name in entered if name not in timings.failures]
        self.timings.rounds += [{name: measured[name] for name in lasted} for measured in timings.rounds]
        for name, shape in product(lasted, context.recipe.shapes):
            if name != SOURCE:
                ratios = self._ratios.setdefault(name, {}).setdefault(shape, [])
                ratios.append(ratio_in_launch(*timings.pair(name, shape)))

    def _count_operators(self, measured: Sequence[Contestant]) -> None:
        """Count the operators of those that are not counted yet, at the end of a launch, outside the time limit."""
        began, counted = time.monotonic(), {CONTROL, *(one.id for one in self.operators)}
        self.operators += count_operators([one for one in measured if one.id not in counted], self._context)
        self._ends += time.monotonic() - began

    def _describe(self, name: str) -> Finalist:
        failed, latency = self.timings.failures.get(name), self.timings.summarize(name)
        finding = None if failed else self._findings.get(name)  # a decided finalist is not launched again
        if finding is None:
            reason = failed.reason if failed else self.cut or "it was not launched"
            return Finalist(id=name, speedups=(), latency=latency, launches=0, reason=reason)
        return Finalist(id=name, latency=latency, **dict(finding))


def _warn(context: RunContext, raced: Measurements) -> None:
    """Log the judgements of the machine's gates on the race: launches under the same load would decide nothing.

    A gate of another package that needs measurements of the confirmation is not evaluated yet.
    """
    for gate, limit in list_limits(context.recipe.gates).items():
        try:
            rows = gate.evaluate(limit, raced, raced) if gate.of_machine else ()
        except HoneError as error:
            logger.debug("confirm   the gate %s cannot judge the race: %s", gate.name, error)
            continue
        for row in rows:
            if row.judgement is GateOutcome.UNDECIDED:
                logger.warning("confirm   in the race %s", row.reason)
