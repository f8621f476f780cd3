"""Why the quotient of two median times may be another number than the speed-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kedro_hone.report.evidence import Evidence
from kedro_hone.report.wording import format_ratio, format_shape

_CLOSE: Final = 0.1
"""A quotient that differs from the speed-up by at most this share is not explained."""


def describe_quotients(evidence: Evidence) -> str:
    """Return the quotients of the median times that are not close to the speed-up, with the reason; empty if all are.

    The times are those of the source and of the finalist that the report shows.
    """
    if not (differing := [*_list_differing(evidence)]):
        return ""
    return (
        "A speed-up compares calls of the same moment, in paired launches. The times are medians of all calls: their "
        f"quotient, {', '.join(differing)}, also contains how the machine's speed changed between them."
    )


def _list_differing(evidence: Evidence) -> Iterator[str]:
    before = {one.source.shape: one.source.call_ms for one in evidence.latencies}
    own = next((one.latency for one in evidence.finalists if one.id == evidence.subject), ())
    after = {one.shape: one.call_ms for one in own}
    for one in evidence.speedups:
        old, new = before.get(one.shape), after.get(one.shape)
        if old and new and abs(old / new / one.ratio.estimate - 1) > _CLOSE:
            yield f"{format_ratio(old / new)} at {format_shape(one.shape)}"
