"""Tail latency: the 99th percentile of a call at a shape, in milliseconds, or the 90th where calls are too few."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import Field

from hone_runtime.values.judgement import Judgement
from hone_runtime.values.measurement import Latency
from kedro_hone.core.gates import Gate, Measurements, judge_at_most


def judge(limit: Mapping[str, float], candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the highest percentile that the calls support with the limit at each shape with a limit."""
    rows = {row.shape: row for row in candidate.latency}
    say = partial(judge_at_most, name=GATE.name, candidate=candidate.id, unit="ms", digits=".3f")
    found = []
    for shape, most in limit.items():
        measured, which = find_tail(rows[shape]) if shape in rows else (None, "99th percentile")
        subject = f"{candidate.id} at {shape}, at the {which},"
        found.append(say(measured=measured, limit=most, subject=subject, shape=shape))
    return tuple(found)


def find_tail(latency: Latency) -> tuple[float | None, str]:
    """Return the 99th percentile in ms, or the 90th if there are too few calls for it, and its name."""
    if latency.p99_ms is not None:
        return latency.p99_ms, "99th percentile"
    return latency.p90_ms, f"90th percentile (of {latency.n} calls, too few for the 99th)"


GATE = Gate(
    name="latency_p99_ms",
    takes=dict[str, Annotated[float, Field(gt=0)]],
    field=Field(
        default_factory=dict,
        exclude_if=lambda limits: not limits,
        description="Absolute: the 99th percentile of a call at a shape must not pass this, in ms; the 90th with fewer "
        "than 662 calls.",
    ),
    judge=judge,
    per_shape=True,
)
