"""The calls of a source and of its winner as one small table: percentiles with intervals, throughput and cost."""

from __future__ import annotations

from typing import Final, NamedTuple

from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import LatencyRecord, PercentilesRecord
from kedro_hone.report.returns import describe_return

_COLUMNS: Final = ("p50", "p90", "p99", "rows in a second", "a million calls")
_SOURCE: Final = "source"


class CallTable(NamedTuple):
    """A table of texts; a column without any value is left out.

    Attributes:
        columns: The titles, after that of the first column, which has none.
        rows: The cells; the first names the model and the shape.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tabulate_calls(evidence: Evidence) -> CallTable | None:
    """Return percentiles, throughput and cost of the source and of the winner, or the finalist, at each shape.

    The values are those of the page: the evidence's percentiles, and ``describe_return``. None if there are none.
    """
    found = [row for both in evidence.latencies for row in _list_rows(evidence, both) if any(row[1:])]
    used = [at for at in range(1, len(_COLUMNS) + 1) if any(row[at] for row in found)]
    if not used:
        return None
    rows = tuple((row[0], *(row[at] or wording.NONE for at in used)) for row in found)
    return CallTable(tuple(_COLUMNS[at - 1] for at in used), rows)


def _list_rows(evidence: Evidence, both: LatencyRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the complete rows of the two models at one shape; a text is empty if unknown."""
    shape, found = both.source.shape, describe_return(evidence, both)
    times = {one.id: one for one in evidence.percentiles if one.shape == shape}
    before = (found.throughput_before, found.cost_before) if found else ("", "")
    after = (found.throughput, ", saves ".join(filter(None, (found.cost, found.saving)))) if found else ("", "")
    role, where = "winner" if evidence.winner else "finalist", wording.format_shape(shape)
    return (
        (f"{_SOURCE}, {where}", *_write_times(times.get(_SOURCE)), *before),
        (f"{role}, {where}", *_write_times(times.get(evidence.subject or "")), *after),
    )


def _write_times(record: PercentilesRecord | None) -> tuple[str, str, str]:
    if record is None:
        return ("", "", "")
    p50, p90, p99 = (wording.format_times(one) if one else "" for one in (record.p50, record.p90, record.p99))
    return p50, p90, p99
