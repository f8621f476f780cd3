"""Size on disk: the files of the candidate, in megabytes of a million bytes."""

from __future__ import annotations

from kedro_hone.search.ceilings import make_ceiling

GATE = make_ceiling(
    "size_mb",
    lambda candidate: candidate.size_bytes,
    per=1e6,
    unit="MB",
    subject="the files of {}",
    verb="take",
    description="Absolute: the files of the published model must not pass this together, in MB (a million bytes).",
)
