"""The table of operators by precision: how many of each finalist's operators run in int8, fp32 and so on."""

from __future__ import annotations

from typing import NamedTuple

from hone_runtime.values.operators import PRECISIONS, Operators, Precision
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.wording import format_shape


class Row(NamedTuple):
    """One model at the shapes where it has the same operators; they are None if they are not known."""

    id: str
    shapes: str
    found: Operators | None


class OperatorTable(NamedTuple):
    """The precisions that occur, narrowest first, and the rows: the source, then the finalists, best first."""

    precisions: tuple[Precision, ...]
    rows: tuple[Row, ...]


def tabulate_operators(evidence: Evidence) -> OperatorTable | None:
    """Return the table of operators; None if nothing was counted, as in older evidence."""
    order = ["source", *(finalist.id for finalist in evidence.finalists)]
    rows = tuple(row for name in order for row in _list_rows(name, evidence))
    counted = [row.found.counts for row in rows if row.found is not None and row.found.counts is not None]
    if not counted:
        return None
    return OperatorTable(tuple(one for one in PRECISIONS if any(one in counts for counts in counted)), rows)


def _list_rows(name: str, evidence: Evidence) -> list[Row]:
    groups: list[list[Operators]] = []
    for one in evidence.operators:
        if one.id != name:
            continue
        same = [group for group in groups if (group[0].counts, group[0].kinds) == (one.counts, one.kinds)]
        same[0].append(one) if same else groups.append([one])
    return [
        Row(name, ", ".join(format_shape(one.shape) for one in group), None if group[0].counts is None else group[0])
        for group in groups
    ]


def describe_operators(evidence: Evidence) -> str:
    """Return the counts of the source and of the reported candidate in one sentence; empty if none is known."""
    table = tabulate_operators(evidence)
    if table is None:
        return ""
    named = {"source": "source", evidence.subject: "winner" if evidence.winner else "finalist"}
    return "; ".join(
        f"{named[row.id]}{'' if len(_find_shapes(row.id, table)) == 1 else f' at {row.shapes}'}: {_format_counts(row)}"
        for row in table.rows
        if row.id in named
    )


def _find_shapes(name: str, table: OperatorTable) -> list[str]:
    return [row.shapes for row in table.rows if row.id == name]


def _format_counts(row: Row) -> str:
    counts = row.found.counts if row.found is not None else None
    return "not known" if counts is None else ", ".join(f"{count:,} {name}" for name, count in counts.items())
