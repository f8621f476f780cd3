"""The slices of the gate split in the reports: the worst one first."""

from __future__ import annotations

from typing import Final, NamedTuple

from hone_runtime.values.measurement import Quality, SliceQuality, is_bounded
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.wording import format_drop, format_metric

COLUMNS: Final = ("rows", "source", "candidate", "drop", "at most")
_MOST: Final = 50


class SliceTable(NamedTuple):
    """The slices of the candidate that a report describes.

    Attributes:
        by: The column that divides the rows, with the candidate's metric.
        limit: The largest drop that the recipe allows in each slice, as text.
        rows: The name of each slice and its cells of ``COLUMNS``, the worst first; 50 at most.
        left_out: How many slices are not listed.
        columns: ``COLUMNS``.
    """

    by: str
    limit: str
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    columns: tuple[str, ...] = COLUMNS


def tabulate_slices(evidence: Evidence) -> SliceTable | None:
    """Return the table of the slices; None if the recipe names none, or no candidate was scored."""
    limit = (evidence.recipe.get("gates") or {}).get("slices")
    quality = next((one for one in evidence.subject_quality if one.slices), None)
    if quality is None or limit is None:
        return None
    ordered = sorted(quality.slices, key=lambda one: (-one.drop.high, -one.drop.estimate))
    return SliceTable(
        by=str(limit["by"]),
        limit=format_drop(quality.metric, float(limit["drop"])),
        rows=tuple((one.name, *_format(one, quality)) for one in ordered[:_MOST]),
        left_out=max(0, len(ordered) - _MOST),
    )


def _format(one: SliceQuality, quality: Quality) -> tuple[str, ...]:
    if one.source is None or one.candidate is None:
        return (f"{one.n:,}", "-", "-", "-", "not known")
    metric = quality.metric
    end = format_drop(metric, one.drop.high, unit=False) if is_bounded(one.drop.high) else "not known"
    values = (format_metric(metric, one.source), format_metric(metric, one.candidate))
    return (f"{one.n:,}", *values, format_drop(metric, one.drop.estimate, unit=False), end)
