"""The judgements of the gates on each finalist, as one table for all gates."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kedro_hone.core.values.judgement import Judged, Judgement
from kedro_hone.core.values.measurement import is_bounded
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.wording import name_metric, name_shape

COLUMNS: Final = ("limit", "measured", "interval", "judgement")
"""The columns of ``GateRow.cells``."""

STATUS: Final[Mapping[Judged, str]] = MappingProxyType(
    {Judged.HOLDS: "artifact", Judged.FAILS: "failed", Judged.UNDECIDED: "refused", Judged.NOT_ASKED: "refused"}
)
"""The class of the page's style in which a judgement is shown: that of a step's outcome."""


@dataclass(frozen=True, kw_only=True)
class GateRow:
    """One row of the table.

    Attributes:
        candidate: The candidate, or None where the evidence does not list it.
        identifier: The candidate's id.
        gate: The gate's name, with the shape where it is about one.
        cells: What ``COLUMNS`` names, as text.
        status: The class of its style on the page.
        reason: One sentence.
    """

    candidate: CandidateRecord | None
    identifier: str
    gate: str
    cells: tuple[str, ...]
    status: str
    reason: str


def list_gate_rows(evidence: Evidence) -> tuple[GateRow, ...]:
    """Return one row for each judgement, in the order of the evidence."""
    return tuple(_make_row(evidence, judgement) for judgement in evidence.gates)


def _make_row(evidence: Evidence, judgement: Judgement) -> GateRow:
    unit = judgement.unit
    return GateRow(
        candidate=evidence.find_candidate(judgement.candidate),
        identifier=judgement.candidate,
        gate=f"{judgement.name}, {name_shape(judgement.shape)}" if judgement.shape else judgement.name,
        cells=(
            format_measure(judgement.limit, unit),
            format_measure(judgement.measured, unit),
            _format_ends(judgement.low, judgement.high),
            judgement.judgement.value,
        ),
        status=STATUS[judgement.judgement],
        reason=judgement.reason,
    )


def _format_ends(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "–"
    return f"{low:.4g} to {high:.4g}" if is_bounded(low) or is_bounded(high) else "unbounded"


def format_measure(number: float | None, unit: str) -> str:
    """Return a number with four significant digits and its unit, or a dash where there is none."""
    return "–" if number is None else f"{number:,.4g} {name_metric(unit)}".rstrip()
