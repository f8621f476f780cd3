"""Cold start: the time from the start of loading to the first predictions, in milliseconds."""

from __future__ import annotations

from kedro_hone.search.ceilings import make_ceiling

GATE = make_ceiling(
    "cold_start_ms",
    lambda candidate: candidate.cold_start_ms,
    unit="ms",
    subject="the cold start of {}",
    description="Absolute: the time from the start of loading to the first predictions, without the interpreter's "
    "start, must not pass this, in milliseconds.",
)
