"""Confirm: measure the finalists and the source again in fresh processes, with the source against itself (A/A)."""

from __future__ import annotations

import datetime as dt

from kedro_hone.comparing.confirming import Launches, read_hardware
from kedro_hone.comparing.setting import Setting, Took, measure_alone
from kedro_hone.comparing.timings import SOURCE
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import ConfirmationResult, RaceResult, Status


def confirm(*, setting: Setting, result: RaceResult) -> ConfirmationResult:
    """Measure the best of the race again, in as many launches as a decision needs; finalists come fastest first."""
    names = [s.id for s in result.standings if s.status is Status.MEASURED][: setting.recipe.confirm.finalists]
    validated = result.validated
    artifacts = {name: o for name in names if isinstance(o := validated[name].candidate.outcome, Artifact)}
    launches = Launches(artifacts, setting)
    took = Took(0.0, None)
    if artifacts:
        with measure_alone(setting.run, "confirm", artifacts=[setting.source, *artifacts.values()]) as watch:
            launches.run()
            took = watch()
    return ConfirmationResult(
        finalists=launches.describe(),
        source_latency=launches.timings.summarize(SOURCE) or result.source_latency,
        control=launches.compare_control(),
        launches=launches.count,
        looks=sum(look <= launches.count for look in setting.recipe.confirm.looks),
        timings=launches.timings.keep(setting.store, "confirm"),
        workers=launches.timings.workers,
        seconds=took.seconds,
        other_load=took.other_load,
        hardware=read_hardware(threads=setting.recipe.thread_count),
        ended=dt.datetime.now(dt.UTC),
    )
