"""How long a confirmation takes: expected from the race, and then from its launches so far."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from hone_runtime.values.measurement import BUSY, Latency, Validation
from kedro_hone.core.stats.plan import LaunchStep
from kedro_hone.core.stats.speed import Faster
from kedro_hone.search.context import RunContext

_START_SECONDS, _LEAST_SHARE = 1.0, 0.1
"""The approximate time to start a worker on an idle machine, and the least share of the cores under any load."""


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """The seconds that a confirmation still takes, from its launches so far.

    Attributes:
        least: If the next look decides everything.
        most: If it goes on to the last look, or to its time limit.
    """

    least: float
    most: float


def format_plan(finalists: int, looks: Sequence[int]) -> str:
    """Return how many launches there will be, at least and at most."""
    launches = f"{looks[0]}" if len(looks) == 1 else f"{looks[0]} to {looks[-1]}"
    return f"{finalists} finalist{'' if finalists == 1 else 's'}, in {launches} launches"


def guess_launch(
    context: RunContext, validations: Sequence[Validation], source: Sequence[Latency], *, load: float = 0.0
) -> float | None:
    """Return about how many seconds one launch takes, from validation and race; None if they did not measure it.

    The workers load their models, at once as many as there are cores plus one, and are timed one by one. Starting takes
    longer if other processes use a share of the cores, ``load``; measured times already include it.
    """
    colds = [one.cold_start_ms for one in validations if one.cold_start_ms is not None]
    if len(colds) < len(validations) or not source:
        return None
    confirm, entrants = context.recipe.confirm, len(validations) + 2
    slowest = max(colds)  # the cold start of the source, which starts twice, is not known here
    waves = math.ceil(entrants / (len(os.sched_getaffinity(0)) + 1))
    clients = context.recipe.clients
    timed = sum(max(confirm.burst_ms, 2 * clients.get(one.shape, 1) * one.call_ms) for one in source)
    start = _START_SECONDS / max(1 - load, _LEAST_SHARE)
    return waves * (start + slowest / 1e3) + entrants * (confirm.rounds + 1) * timed / 1e3


def format_expected_time(launch: float | None, looks: Sequence[int], *, limit: float, load: float = 0.0) -> str:
    """Return about how long the launches take, and when the confirmation ends at the latest."""
    end = f"it ends after {limit:.0f} s at the latest (hone.confirm.seconds)"
    if launch is None:
        return end
    least, most = (f"{min(launch * count, limit):.0f}" for count in (looks[0], looks[-1]))
    shown = least if least == most else f"{least} to {most}"
    if load <= BUSY:
        return f"this takes about {shown} s; {end}"
    return f"this takes about {shown} s if other processes use {load:.0%} of the cores, as in the race; {end}"


def find_remaining(launch: float | None, looks: Sequence[int], *, count: int, left: float) -> Remaining:
    """Return what remains of a confirmation after some launches.

    Args:
        launch: The seconds of one launch; None if they are not known, and then the confirmation may take all its time.
        looks: The numbers of launches after which the data are analysed.
        count: How many launches there were.
        left: The seconds to its time limit.
    """
    left = max(0.0, left)
    if launch is None:
        return Remaining(least=0.0, most=left)
    later = [look for look in looks if look > count] or [count]
    least, most = (min(left, launch * (look - count)) for look in (later[0], later[-1]))
    return Remaining(least=least, most=most)


def format_look(step: LaunchStep, *, count: int, looks: Sequence[int]) -> str:
    """Return what is decided after so many launches, and how many there may be in the end."""
    decided = sum(finding.verdict is not Faster.UNDECIDED for finding in step.findings.values())
    if not step.findings:
        said = "no finalist is left"
    elif decided == len(step.findings):
        said = "all decided"
    else:
        more = f", next look at {count + step.launches}, at most {looks[-1]}" if step.launches else ""
        said = f"{decided} of {len(step.findings)} decided{more or ', and there is no further look'}"
    return f"{count} launches: {said}"
