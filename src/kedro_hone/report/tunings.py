"""Tuned quantizations: which share of the operators in int8 costs how much of the metric, and gains how much time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import ValidationError

from hone_runtime.values.base import Json
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord, Tuning, TuningPoint
from kedro_hone.report.wording import format_drop, format_percent, format_ratio

MOST: Final = 4
"""The most tunings in a report."""


def read_tuning(metadata: Mapping[str, Json]) -> Tuning | None:
    """Return the notes of a tuner in an artifact's metadata; None if there are none, or of another form."""
    noted = metadata.get("tuned")
    if not isinstance(noted, dict):
        return None
    try:
        return Tuning.model_validate({name: value for name, value in noted.items() if name in Tuning.model_fields})
    except ValidationError:  # any toolchain may write these notes
        return None


def list_tunings(evidence: Evidence) -> tuple[tuple[CandidateRecord, Tuning], ...]:
    """Return at most ``MOST`` candidates with a tuning, best first; of several with the same one only the first."""

    def find() -> Iterator[tuple[CandidateRecord, Tuning]]:
        known: list[Tuning] = []
        for candidate in evidence.candidates:
            if candidate.tuning is not None and candidate.tuning not in known:
                known.append(candidate.tuning)
                yield candidate, candidate.tuning

    return tuple(find())[:MOST]


def describe_tuning(tuning: Tuning) -> str:
    """Return one sentence on the result of a tuning."""
    return (
        f"{tuning.int8:,} of {tuning.operators:,} operators are in int8, after {tuning.evaluations:,} validations "
        f"({tuning.strategy}); the gate allows {_format_drops(tuning.metric, tuning.limit, tuning.others)}"
    )


def format_point(point: TuningPoint, metric: str) -> tuple[str, str, str]:
    """Return the cells of a row: the share in int8, the drop, and the speed of the operators against the source's."""
    drops = _format_drops(metric, point.drop, point.others)
    return format_percent(point.share), drops, format_ratio(1 / point.time) if point.time else "–"  # noqa: RUF001 (typographic)


def _format_drops(metric: str, drop: float | None, others: Mapping[str, float | None]) -> str:
    """Return the drops of a metric and of others, which are named."""

    def write(name: str, value: float | None) -> str:
        return "not a number" if value is None else format_drop(name, value)

    return ", ".join((write(metric, drop), *(f"{name} {write(name, value)}" for name, value in others.items())))
