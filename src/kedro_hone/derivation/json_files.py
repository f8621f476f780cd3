"""Files of JSON: one object on each line, or one list of objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kedro_hone.derivation.encodings import read_text
from kedro_hone.derivation.kinds import find_kind
from kedro_hone.derivation.rows import Table, check_counts, find_unreadable
from kedro_hone.programs.worker.formats import parse_lines

_HINT = "Write one JSON object on each line, with the same keys in each."


@dataclass(frozen=True)
class JsonContent:
    """The line of each row, as it is in the file."""

    lines: Sequence[str]

    def write(self, splits: Mapping[str, Sequence[int]], folder: Path) -> dict[str, Path]:
        """Write ``.jsonl`` files in UTF-8, with unchanged lines."""
        made = {}
        for name, rows in splits.items():
            made[name] = folder / f"{name}.jsonl"
            with made[name].open("w", encoding="utf-8", newline="") as stream:
                stream.writelines(f"{self.lines[row]}\n" for row in rows)
        return made


def read_json(*paths: Path, path: Path | None = None) -> Table:
    """Read ``.jsonl``, ``.ndjson`` or ``.json`` files, one after another: their keys are the columns.

    Args:
        paths: The files.
        path: The folder in which they are; the file itself by default.

    Raises:
        HoneError: ``data-unreadable`` or ``data-empty``.
    """
    place = path or paths[0]
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    notes: tuple[str, ...] = ()
    for file in paths:
        text, said = read_text(file)
        found = _read_list(file, text) if text.lstrip().startswith("[") else _read_lines(file, text)
        rows, lines, notes = [*rows, *found[0]], [*lines, *found[1]], (*notes, *said)
    names = dict.fromkeys(name for row in rows for name in row)
    check_counts(place, {"": len(rows)})
    lines = [_complete(line, row, names) for line, row in zip(lines, rows, strict=True)]
    columns = {name: [row.get(name) for row in rows] for name in names}
    kinds = {name: find_kind(column) for name, column in columns.items()}
    return Table(place, columns, kinds, len(rows), JsonContent(lines), notes)


def _read_list(path: Path, text: str) -> tuple[list[dict[str, Any]], list[str]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise find_unreadable(path, f"It is no JSON: {error}.", _HINT) from error
    odd = next((at for at, row in enumerate(rows) if not isinstance(row, dict)), None)
    if odd is not None:
        raise find_unreadable(path, f"Entry {odd} of its list is no JSON object.", _HINT)
    return rows, [json.dumps(row, ensure_ascii=False) for row in rows]


def _read_lines(path: Path, text: str) -> tuple[list[dict[str, Any]], list[str]]:
    try:
        found = [*parse_lines(text.split("\n"))]
    except ValueError as error:
        why = str(error)
        raise find_unreadable(path, f"{why[0].upper()}{why[1:]}.", _HINT) from error
    return [row for _, row in found], [line for line, _ in found]


def _complete(line: str, row: dict[str, Any], names: Mapping[str, None]) -> str:
    """Return the line with null for the keys that it lacks: without them, a split may lack a column."""
    missing = ", ".join(f"{json.dumps(name)}: null" for name in names if name not in row)
    return f"{line[:-1]}{', ' if row else ''}{missing}}}" if missing else line
