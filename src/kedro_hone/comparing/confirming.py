"""Launches of the finalists, the source and the source once more, until the data decide who is faster.

Launches of one program differ far more than rounds within a launch (memory layout, thread placement, compilation), so
one launch gives one number: T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time", ISMM 2013. It is the
median of the ratios to the source in the same round, since the machine's speed differs from round to round.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from kedro_hone.comparing.setting import Setting, explain_source_failure
from kedro_hone.comparing.timings import SOURCE, count_workers, summarize_latency
from kedro_hone.core import stats
from kedro_hone.core.measuring.launches import enter
from kedro_hone.core.measuring.rounds import Timings, measure_round
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Finalist, Speedup
from kedro_hone.core.values.outcome import Failed

logger = open_logger(__name__)

CONTROL = "source again"
"""The source's second worker in each launch: what it differs from the first by is noise (A/A)."""

Ratios = dict[str, list[float]]


@dataclass
class Launches:
    """The source's ratio to each other entrant at each shape, one for each launch; and all times.

    Attributes:
        ratios: By the entrant's id, then by shape: baseline time over the entrant's time, one for each launch.
        failures: By the entrant's id, why it left.
        count: How many launches there were.
        workers: How many worker processes they started.
    """

    ratios: dict[str, Ratios] = field(default_factory=dict)
    timings: Timings = field(default_factory=Timings)
    failures: dict[str, Failed] = field(default_factory=dict)
    count: int = 0
    workers: int = 0


def describe_finalist(name: str, finding: stats.Finding | None, launches: Launches, setting: Setting) -> Finalist:
    """Return what is known of one finalist; None stands for one that failed."""
    latency = summarize_latency(launches.timings, name, setting.shapes)
    if finding is None:
        return Finalist(id=name, speedups=(), latency=latency, launches=0, reason=launches.failures[name].reason)
    return Finalist(
        id=name,
        speedups=finding.speedups,
        latency=latency,
        launches=finding.launches,
        verdict=finding.verdict,
        deciding=finding.deciding,
    )


def launch_until_decided(
    artifacts: Mapping[str, Artifact], setting: Setting, launches: Launches
) -> dict[str, stats.Finding]:
    """Launch the finalists as often as a decision needs, at most until the recipe's last look, and keep it in launches.

    Returned is what was found of each finalist that could be measured.

    Raises:
        HoneError: ``source-failed``.
    """
    recipe = setting.recipe
    plan = stats.LaunchPlan(
        finalists=len(artifacts),
        threshold=recipe.gates.speedup,
        confidence=recipe.gates.confidence,
        looks=recipe.confirm.looks,
        objective=recipe.race.objective,
        weights=recipe.race.weights or None,
    )
    order = random.Random(recipe.seed + 1)  # noqa: S311 - an order of measuring, not a secret
    running = list(artifacts)
    step = stats.LaunchStep(findings={}, undecided=tuple(running), launches=plan.looks[0])
    logger.info("confirm   %s", say_plan(len(running), plan.looks))
    while step.launches and running:
        until = launches.count + step.launches
        for _ in range(step.launches):
            began = time.monotonic()
            entrants = {SOURCE: setting.source, CONTROL: setting.source, **{name: artifacts[name] for name in running}}
            _launch_once(entrants, setting, order, launches)
            running = [name for name in running if name not in launches.failures]
            logger.info("launched  %d of %d in %.0f s", launches.count, until, time.monotonic() - began)
        measured = {name: launches.ratios[name] for name in artifacts if name not in launches.failures}
        step = stats.next_step(plan, control=launches.ratios[CONTROL], finalists=measured)
        running = list(step.undecided)
        logger.info("confirmed %s", say_look(step, count=launches.count, looks=plan.looks))
    return step.findings


def say_plan(finalists: int, looks: Sequence[int]) -> str:
    """Return how many launches there will be, at least and at most."""
    launches = f"{looks[0]}" if len(looks) == 1 else f"{looks[0]} to {looks[-1]}"
    return f"{finalists} finalist{'' if finalists == 1 else 's'}, in {launches} launches"


def say_look(step: stats.LaunchStep, *, count: int, looks: Sequence[int]) -> str:
    """Return what is decided after so many launches, and how many there may be in the end.

    Args:
        step: What was found at this look.
        count: How many launches there were.
        looks: The plan's.
    """
    decided = sum(finding.verdict is not stats.Faster.UNDECIDED for finding in step.findings.values())
    if not step.findings:
        said = "no finalist is left"
    elif decided == len(step.findings):
        said = "all decided"
    else:
        more = f", next look at {count + step.launches}, at most {looks[-1]}" if step.launches else ""
        said = f"{decided} of {len(step.findings)} decided{more or ', and there is no further look'}"
    return f"{count} launches: {said}"


def _launch_once(entrants: dict[str, Artifact], setting: Setting, order: random.Random, launches: Launches) -> None:
    """Start everybody afresh, measure some rounds, and keep one ratio for each."""
    timings = Timings()
    shuffled = list(entrants.items())
    order.shuffle(shuffled)
    with ExitStack() as stack:
        entered, failures = enter(
            dict(shuffled),
            shapes=setting.batches,
            burst_ms=setting.recipe.confirm.burst_ms,
            launching=replace(setting.launching, interface=True),
            stacks={name: stack.enter_context(ExitStack()) for name, _ in shuffled},
        )
        for _ in range(setting.recipe.confirm.rounds):
            measure_round(entered.values(), setting.shapes, order=order, timings=timings)
        launches.workers += count_workers(entered, failures)
    failures |= timings.failures
    if lost := {SOURCE, CONTROL} & set(failures):
        raise explain_source_failure(failures[lost.pop()], "while the finalists were confirmed")
    launches.failures |= failures
    launches.count += 1
    for name in entered:
        if name not in failures:
            _keep(name, timings, setting, launches)


def _keep(name: str, timings: Timings, setting: Setting, launches: Launches) -> None:
    for shape in setting.shapes:
        for calls in timings.rounds[name][shape]:
            launches.timings.add(name, shape, calls)
        if name != SOURCE:
            ratio = stats.ratio_in_launch(timings.medians(SOURCE, shape), timings.medians(name, shape))
            launches.ratios.setdefault(name, {}).setdefault(shape, []).append(ratio)


def compare_control(launches: Launches, setting: Setting) -> tuple[Speedup, ...]:
    """Return the source over itself at each shape; nothing after fewer than two launches."""
    if launches.count < 2:
        return ()
    rows = []
    for shape in setting.shapes:
        ratio = stats.interval_of_ratios(launches.ratios[CONTROL][shape], confidence=setting.recipe.gates.confidence)
        floor = stats.find_noise_floor(ratio)
        rows.append(Speedup(shape=shape, ratio=ratio, noise_floor=floor, launches=launches.count))
    return tuple(rows)
