"""Latency: the median time at a shape, in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import Field

from hone_runtime.values.judgement import Judgement
from kedro_hone.core.gates import Gate, Measurements, judge_at_most


def judge(limit: Mapping[str, float], candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001
    """Compare the median with the limit at each shape with a limit."""
    medians = {row.shape: row.p50_ms for row in candidate.latency}
    say = partial(judge_at_most, name=GATE.name, candidate=candidate.id, unit="ms", digits=".3f")
    return tuple(
        say(measured=medians.get(shape), limit=most, subject=f"{candidate.id} at {shape}", shape=shape)
        for shape, most in limit.items()
    )


GATE = Gate(
    name="latency_ms",
    takes=dict[str, Annotated[float, Field(gt=0)]],
    field=Field(default_factory=dict, description="Absolute: the median time at a shape must not pass this, in ms."),
    judge=judge,
    per_shape=True,
)
