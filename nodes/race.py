"""The race: which candidates are fastest, found with few measurements.

The race only chooses the finalists: its speedups are biased upwards, since they are the best of many.
"""

from __future__ import annotations

from kedro_hone.comparing.heats import line_up, rank, run_heats
from kedro_hone.comparing.setting import Setting, measure_alone
from kedro_hone.comparing.timings import SOURCE, keep_timings, summarize_latency
from kedro_hone.core.store.workplace import Workplace
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import RaceResult, Validation
from kedro_hone.core.values.samples import Samples
from kedro_hone.recipe.schema import Recipe


def race(
    *, source: Artifact, samples: Samples, recipe: Recipe, workplace: Workplace, **validations: Validation
) -> RaceResult:
    """Race all candidates that were found valid.

    Args:
        source: The source model.
        samples: The prepared data, with the batch of each shape.
        recipe: The recipe.
        workplace: Where the run works.
        **validations: What ``validate`` found, under any names.

    Returns:
        The standing of every candidate that raced, best first, with all validations.
    """
    setting = Setting(source=source, samples=samples, recipe=recipe, workplace=workplace)
    state = line_up(validations.values(), setting)
    with measure_alone(workplace, "race", artifacts=[source, *state.artifacts.values()]) as watch:
        budget_ended = run_heats(state, setting)
        seconds, other_load = watch.seconds(), watch.other_load()
    return RaceResult(
        validations=tuple(validations.values()),
        standings=rank(state, setting),
        source_latency=summarize_latency(state.timings, SOURCE, setting.shapes),
        rounds=state.timings.count,
        seconds=seconds,
        budget_ended=budget_ended,
        timings=keep_timings(workplace.store, "race", state.timings),
        workers=state.workers,
        other_load=other_load,
    )
