"""The probe: a few rounds of one candidate against another, to find out whether it is worth a place in the race."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np

from kedro_hone.comparing.launches import enter, measure_round
from kedro_hone.comparing.setting import Setting, measure_alone
from kedro_hone.comparing.timings import Timings
from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.core.stats.speed import combine_shapes
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Interval
from kedro_hone.recipe.schema import Recipe

ROUNDS: Final = 5
"""As many as in the first block of a race, which is the least from which the race drops anybody."""


@dataclass(frozen=True, kw_only=True)
class Probed:
    """How many times as fast as the best so far a candidate was.

    Attributes:
        speed: By the recipe's objective.
        shapes: At each shape.
    """

    speed: Interval
    shapes: dict[str, Interval]

    @property
    def hopeless(self) -> bool:
        """Whether it was slower at every shape, by the whole interval: it wins at none, and is no part of a winner."""
        return all(interval.high < 1 for interval in self.shapes.values())


def measure_together(artifacts: Mapping[str, Artifact], setting: Setting, timings: Timings) -> float:
    """Measure artifacts by their ids in interleaved rounds, each in a fresh worker; return the seconds that took.

    A worker that fails ends with its failure in the timings, and the others go on; when the search is stopped, no
    further round begins.
    """
    # By the names, too: of two entrants one would be first as often as the seed has it, in every probe of a search.
    order = random.Random(f"{setting.recipe.seed} {sorted(artifacts)}")  # noqa: S311 - an order of measuring
    burst_ms = setting.recipe.race.burst_ms
    with measure_alone(setting.run, "explore", artifacts=artifacts.values()) as took, ExitStack() as stack:
        entered = enter(artifacts, setting, burst_ms=burst_ms, timings=timings, stack=stack)
        for _ in range(ROUNDS):
            if setting.run.is_stopped():
                break
            running = [one for name, one in entered.items() if name not in timings.failures]
            measure_round(running, order=order, timings=timings)
    return float(took["seconds"])


def compare(name: str, rival: str, timings: Timings, recipe: Recipe) -> Probed | None:
    """Return how many times as fast as a rival a candidate was; None where not all rounds have both."""
    if sum(name in measured and rival in measured for measured in timings.rounds) < ROUNDS:
        return None
    ratios = {shape: np.divide(*timings.pair(name, shape, rival=rival)) for shape in recipe.shapes}
    level, weights = recipe.gates.confidence, recipe.race.weights or None
    return Probed(
        speed=interval_of_ratios(combine_shapes(ratios, recipe.race.objective, weights), confidence=level),
        shapes={shape: interval_of_ratios(values, confidence=level) for shape, values in ratios.items()},
    )
