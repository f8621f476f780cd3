"""Tail latency: the 99th percentile of a call at a shape, in milliseconds.

With too few calls for it a limit is never passed. It is missed if the 90th percentile is over it, as the 99th then is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import Field

from hone_runtime.values.judgement import Judgement
from hone_runtime.values.measurement import P99_FROM, Latency
from kedro_hone.core.gates import Gate, Measurements, judge_at_most


def judge(limit: Mapping[str, float], candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001 - as every gate
    """Compare the 99th percentile with the limit at each shape with a limit, or with too few calls the 90th."""
    rows = {row.shape: row for row in candidate.latency}
    return tuple(_judge_shape(candidate.id, shape, most, rows.get(shape)) for shape, most in limit.items())


def _judge_shape(name: str, shape: str, limit: float, latency: Latency | None) -> Judgement:
    compare = partial(judge_at_most, name=GATE.name, candidate=name, limit=limit, unit="ms", digits=".3f", shape=shape)
    subject = f"{name} at {shape}, at the"
    if latency is None or latency.p99_ms is not None:
        return compare(measured=latency.p99_ms if latency else None, subject=f"{subject} 99th percentile,")
    if latency.p90_ms is not None and latency.p90_ms > limit:
        which = f"90th percentile (of {latency.n} calls, too few for the 99th)"
        return compare(measured=latency.p90_ms, subject=f"{subject} {which},")
    unknown = compare(measured=None, subject=f"{subject} 99th percentile,")
    return unknown.model_copy(update={"reason": f"{unknown.reason}: {_describe_missing(latency.n)}"})


def _describe_missing(calls: int) -> str:
    missing = P99_FROM - calls
    counted = f"{missing} call is" if missing == 1 else f"{missing} calls are"
    advice = "more launches (hone.confirm.looks) or a larger hone.confirm.seconds give more"
    return f"{counted} missing: {calls} were timed of the {P99_FROM} that it needs; {advice}"


GATE = Gate(
    name="latency_p99_ms",
    takes=dict[str, Annotated[float, Field(gt=0)]],
    field=Field(
        default_factory=dict,
        exclude_if=lambda limits: not limits,
        description="Absolute: the 99th percentile of a call at a shape must not pass this, in ms; with fewer than 662 "
        "calls it is undecided, unless the 90th passes it.",
    ),
    judge=judge,
    per_shape=True,
)
