"""The race: which candidates are fastest, found with few measurements.

The race only chooses the finalists: its speedups are biased upwards, since they are the best of many.
"""

from __future__ import annotations

from kedro_hone.comparing.heats import Race
from kedro_hone.comparing.setting import Setting, measure_alone
from kedro_hone.comparing.timings import SOURCE
from kedro_hone.core.values.measurement import RaceResult, Validation


def race(*, setting: Setting, **validations: Validation) -> RaceResult:
    """Race the candidates that were found valid, and return the standings, best first, with all the validations."""
    heats = Race(validations.values(), setting)
    with measure_alone(setting.run, "race", artifacts=[setting.source, *heats.artifacts.values()]) as watch:
        budget_ended = heats.run()
        took = watch()
    return RaceResult(
        validations=tuple(validations.values()),
        standings=heats.rank(),
        source_latency=heats.timings.summarize(SOURCE),
        rounds=len(heats.timings.rounds),
        budget_ended=budget_ended,
        timings=heats.timings.keep(setting.store, "race"),
        workers=heats.timings.workers,
        seconds=took.seconds,
        other_load=took.other_load,
    )
