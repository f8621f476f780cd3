"""Peak memory: resident memory of the process that runs the candidate, in megabytes of a million bytes."""

from __future__ import annotations

from kedro_hone.search.ceilings import make_ceiling

GATE = make_ceiling(
    "memory_mb",
    lambda candidate: candidate.peak_memory_bytes,
    per=1e6,
    unit="MB",
    subject="the process of {}",
    verb="takes at its peak",
    description="Absolute: the peak resident memory of the process that runs the model, with its interpreter and its "
    "toolchain, must not pass this, in MB (a million bytes).",
)
