"""Confirm: measure the finalists and the source again in fresh processes, with the source against itself (A/A)."""

from __future__ import annotations

from kedro_hone.comparing.confirming import Launches, compare_control, describe_finalist, launch_until_decided
from kedro_hone.comparing.setting import Setting, measure_alone
from kedro_hone.comparing.timings import SOURCE, keep_timings, summarize_latency
from kedro_hone.core import stats
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Confirmation, Finalist, RaceResult, Status


def confirm(*, setting: Setting, result: RaceResult) -> Confirmation:
    """Measure the best of the race again, in as many launches as a decision needs; finalists come fastest first."""
    names = [s.id for s in result.standings if s.status is Status.MEASURED][: setting.recipe.confirm.finalists]
    validated = result.validated
    artifacts = {name: o for name in names if isinstance(o := validated[name].candidate.outcome, Artifact)}
    launches = Launches()
    findings: dict[str, stats.Finding] = {}
    seconds, other_load = 0.0, None
    if artifacts:
        with measure_alone(setting.run, "confirm", artifacts=[setting.source, *artifacts.values()]) as watch:
            findings = launch_until_decided(artifacts, setting, launches)
            seconds, other_load = watch.seconds(), watch.other_load()
    raw = keep_timings(setting.store, "confirm", launches.timings)
    finalists = [describe_finalist(name, findings.get(name), launches, setting) for name in artifacts]
    return Confirmation(
        finalists=tuple(sorted(finalists, key=_order)),
        source_latency=summarize_latency(launches.timings, SOURCE, setting.shapes) or result.source_latency,
        control=compare_control(launches, setting),
        launches=launches.count,
        looks=sum(look <= launches.count for look in setting.recipe.confirm.looks),
        seconds=seconds,
        timings=raw,
        workers=launches.workers,
        other_load=other_load,
    )


def _order(finalist: Finalist) -> tuple[bool, float]:
    deciding = finalist.deciding
    return (bool(finalist.reason), -(deciding.ratio.low if deciding else 0.0))
