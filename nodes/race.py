"""The race: which candidates are fastest, found with few measurements.

The race only chooses the finalists: its speedups are biased upwards, since they are the best of many.
"""

from __future__ import annotations

from kedro_hone.comparing.heats import line_up, rank, run_heats
from kedro_hone.comparing.setting import Setting, measure_alone
from kedro_hone.comparing.timings import SOURCE, keep_timings, summarize_latency
from kedro_hone.core.values.measurement import RaceResult, Validation


def race(*, setting: Setting, **validations: Validation) -> RaceResult:
    """Race all candidates that were found valid, and return the standing of each, best first, with all validations.

    The validations may come under any names.
    """
    state = line_up(validations.values(), setting)
    with measure_alone(setting.run, "race", artifacts=[setting.source, *state.artifacts.values()]) as watch:
        budget_ended = run_heats(state, setting)
        seconds, other_load = watch.seconds(), watch.other_load()
    return RaceResult(
        validations=tuple(validations.values()),
        standings=rank(state, setting),
        source_latency=summarize_latency(state.timings, SOURCE, setting.shapes),
        rounds=state.timings.count,
        seconds=seconds,
        budget_ended=budget_ended,
        timings=keep_timings(setting.store, "race", state.timings),
        workers=state.workers,
        other_load=other_load,
    )
