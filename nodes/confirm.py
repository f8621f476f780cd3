"""Confirm: the finalists and the source again, in fresh processes, with the source against itself.

Launches of one program differ far more than rounds within a launch (memory layout, thread placement, compilation), so
one launch gives one number: T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time", ISMM 2013.
"""

from __future__ import annotations

import logging
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kedro_hone.core import stats
from kedro_hone.core.launches import enter
from kedro_hone.core.locks import hold_device
from kedro_hone.core.measurement import Confirmation, Finalist, RaceResult, Speedup, Status, Validation
from kedro_hone.core.rounds import Timings, measure_round
from kedro_hone.core.samples import Samples
from kedro_hone.core.types import Artifact, Failed
from kedro_hone.core.workplace import Workplace
from kedro_hone.nodes.race import SAMPLES_FILE, SOURCE, save_samples, summarize_latency
from kedro_hone.nodes.validate import read_launching
from kedro_hone.recipe import Recipe, read_recipe

logger = logging.getLogger(__name__)

CONTROL = "source again"
"""The source's second worker in each launch: what it differs from the first by is noise (A/A)."""

Times = dict[str, list[float]]


@dataclass
class _Launches:
    """One number for each launch, entrant and shape, in nanoseconds."""

    times: dict[str, Times] = field(default_factory=dict)
    timings: Timings = field(default_factory=Timings)
    failures: dict[str, Failed] = field(default_factory=dict)
    count: int = 0


def confirm(
    result: RaceResult,
    source: Artifact,
    samples: Samples,
    parameters: dict[str, Any],
    workplace: Workplace,
    **validations: Validation,
) -> Confirmation:
    """Measure the best of the race again, in as many launches as a decision needs.

    Args:
        result: The race.
        source: The source model.
        samples: The prepared data, with the batch of each shape.
        parameters: The recipe.
        workplace: Where the run works.
        **validations: What ``validate`` found, for the artifacts.

    Returns:
        The finalists, those that are faster first, with the control.
    """
    recipe = read_recipe(parameters)
    names = [s.id for s in result.standings if s.status is Status.MEASURED][: recipe.confirm.finalists]
    outcomes = {v.candidate.id: v.candidate.outcome for v in validations.values()}
    artifacts = {name: outcome for name in names if isinstance(outcome := outcomes[name], Artifact)}
    started = time.monotonic()
    launches = _Launches()
    findings: dict[str, stats.Finding] = {}
    if artifacts:
        with hold_device(Path(workplace.root), "cpu"):
            findings = _launch_until_decided(artifacts, source, samples, recipe, workplace, launches)
    save_samples(workplace.folder / SAMPLES_FILE, "confirm", launches.timings)
    shapes = list(recipe.shapes)
    finalists = [
        Finalist(
            id=name,
            speedups=findings[name].speedups if name in findings else (),
            latency=summarize_latency(launches.timings, name, shapes),
            launches=findings[name].launches if name in findings else 0,
            verdict=findings[name].verdict if name in findings else "",
            deciding=findings[name].deciding if name in findings else None,
            reason=launches.failures[name].reason if name in launches.failures else "",
        )
        for name in artifacts
    ]
    return Confirmation(
        finalists=tuple(sorted(finalists, key=_order)),
        source_latency=summarize_latency(launches.timings, SOURCE, shapes) or result.source_latency,
        control=_compare_control(launches, recipe),
        launches=launches.count,
        looks=sum(look <= launches.count for look in recipe.confirm.looks),
        seconds=time.monotonic() - started,
        samples=SAMPLES_FILE,
    )


def _order(finalist: Finalist) -> tuple[bool, float]:
    deciding = finalist.deciding
    return (bool(finalist.reason), -(deciding.ratio.low if deciding else 0.0))


def _launch_until_decided(
    artifacts: dict[str, Artifact],
    source: Artifact,
    samples: Samples,
    recipe: Recipe,
    workplace: Workplace,
    launches: _Launches,
) -> dict[str, stats.Finding]:
    plan = stats.LaunchPlan(
        finalists=len(artifacts),
        threshold=recipe.gates.speedup,
        confidence=recipe.gates.confidence,
        looks=recipe.confirm.looks,
        objective=recipe.race.objective,
        weights=recipe.race.weights or None,
    )
    order = random.Random(recipe.seed + 1)  # noqa: S311 - an order of measuring, not a secret
    running, wanted = list(artifacts), plan.looks[0]
    step = stats.Step(findings={}, undecided=tuple(running), launches=wanted)
    while step.launches:
        for _ in range(step.launches):
            entrants = {SOURCE: source, CONTROL: source, **{name: artifacts[name] for name in running}}
            _launch_once(entrants, samples, recipe, workplace, order, launches)
            running = [name for name in running if name not in launches.failures]
        logger.info("confirmed %d launches of %s", launches.count, ", ".join(running) or "nobody: all failed")
        measured = {name: launches.times[name] for name in artifacts if name not in launches.failures}
        step = stats.next_step(plan, source=launches.times[SOURCE], control=launches.times[CONTROL], finalists=measured)
        running = list(step.undecided)
    return step.findings


def _launch_once(
    entrants: dict[str, Artifact],
    samples: Samples,
    recipe: Recipe,
    workplace: Workplace,
    order: random.Random,
    launches: _Launches,
) -> None:
    """Start everybody afresh, measure some rounds, and keep one number for each."""
    shapes = list(recipe.shapes)
    timings = Timings()
    shuffled = list(entrants.items())
    order.shuffle(shuffled)
    with ExitStack() as stack:
        stacks = {name: stack.enter_context(ExitStack()) for name, _ in shuffled}
        entered, failures = enter(
            dict(shuffled),
            shapes=samples.shapes,
            burst_ms=recipe.confirm.burst_ms,
            workplace=workplace,
            launching=read_launching(recipe),
            stacks=stacks,
        )
        for _ in range(recipe.confirm.rounds):
            measure_round(entered.values(), shapes, order=order, timings=timings)
    failures |= timings.failures
    if lost := {SOURCE, CONTROL} & set(failures):
        raise RuntimeError(f"the source model's worker failed while confirming: {failures[lost.pop()].reason}")
    launches.failures |= failures
    launches.count += 1
    for name in entered:
        if name in failures:
            continue
        for shape in shapes:
            launches.times.setdefault(name, {}).setdefault(shape, []).append(median(timings.medians(name, shape)))
            for calls in timings.rounds[name][shape]:
                launches.timings.add(name, shape, calls)


def _compare_control(launches: _Launches, recipe: Recipe) -> tuple[Speedup, ...]:
    if launches.count < 2:
        return ()
    rows = []
    for shape in recipe.shapes:
        ratio = stats.interval_of_ratios(
            launches.times[SOURCE][shape], launches.times[CONTROL][shape], confidence=recipe.gates.confidence
        )
        floor = stats.find_noise_floor(ratio)
        rows.append(Speedup(shape=shape, ratio=ratio, noise_floor=floor, launches=launches.count))
    return tuple(rows)
