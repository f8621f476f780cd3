"""Decimal commas: numbers such as ``1.234,5`` in a file whose values are not between commas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kedro_hone.derivation.rows import find_unreadable
from kedro_hone.programs.worker.formats import MISSING

_COMMA: Final = re.compile(r"\s*[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?\s*")
_CERTAIN: Final = re.compile(r"\s*[+-]?(?:0|\d{4,}|\d{1,3}(?:\.\d{3})+),\d+\s*|\s*[+-]?\d+,(?:\d\d?|\d{4,})\s*")
_POINT: Final = re.compile(r"\s*[+-]?\d*\.(?:\d\d?|\d{4,})(?:[eE][+-]?\d+)?\s*")
_GROUPED: Final = re.compile(r"\s*[+-]?(?!0)\d{1,3}(?:\.\d{3})+\s*")
_HINT: Final = "Write numbers with a decimal point, and without marks between thousands."


def convert_decimals(path: Path, cells: dict[str, list[str]]) -> tuple[str, ...]:
    """Replace decimal commas by points in columns whose every number may have one; return a note for these columns.

    A file has one convention: a column counts only if no other has decimal points. ``cells`` is changed.

    Raises:
        HoneError: ``data-unreadable`` if numbers can be read in two ways, as ``1,234`` alone.
    """
    known = {name: [cell for cell in column if cell not in MISSING] for name, column in cells.items()}
    commas = [
        name for name, column in known.items() if column and any("," in c for c in column) and _all(_COMMA, column)
    ]
    if not commas:
        return ()
    points = [name for name, column in known.items() if any(map(_POINT.fullmatch, column))]
    certain = any(_CERTAIN.fullmatch(cell) for name in commas for cell in known[name])
    if points or not certain:
        name = commas[0]
        cell = next(cell for cell in known[name] if "," in cell)
        other = f"; {points[0]!r} has decimal points" if points else ""
        raise find_unreadable(path, f"{cell!r} in {name!r} may have a decimal comma or thousands{other}.", _HINT)
    for name, column in known.items():
        if name not in commas and any(map(_GROUPED.fullmatch, column)) and _all(_COMMA, column):
            cell = next(cell for cell in column if _GROUPED.fullmatch(cell))
            why = f"{cell!r} in {name!r} may have a decimal point or thousands; {commas[0]!r} has decimal commas."
            raise find_unreadable(path, why, _HINT)
    for name in commas:
        cells[name] = [cell if cell in MISSING else cell.replace(".", "").replace(",", ".") for cell in cells[name]]
    listed = ", ".join(map(repr, commas[:5])) + (" and others" if len(commas) > 5 else "")
    return (f"decimal commas were read as points, in {listed}",)


def _all(pattern: re.Pattern[str], cells: list[str]) -> bool:
    return all(map(pattern.fullmatch, cells))
