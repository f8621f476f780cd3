"""Files of delimited text (``.csv``, ``.tsv``), as people have them: any delimiter, encoding and decimal mark."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kedro_hone.derivation.cells import MISSING, find_kind, is_number
from kedro_hone.derivation.decimals import convert_decimals
from kedro_hone.derivation.encodings import read_text
from kedro_hone.derivation.rows import Kind, Table, check_counts, find_unreadable, join_columns

_DELIMITERS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SAMPLE: Final = 200
_SAMPLED: Final = 1 << 20
"""The number of characters in which the delimiter is looked for, in whole lines."""
_STATED: Final = re.compile(r"sep=(.)\r?\n")
"""The first line of a file that Excel wrote for itself."""
_UNNAMED: Final = re.compile(r"(?:Unnamed: \d+)?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?|\d{1,2}([./-])\d{1,2}\1\d{2,4}(?: \d\d:\d\d.*)?")
_JSON: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")

Cells = dict[str, list[str]]


@dataclass(frozen=True)
class CsvContent:
    """The cells of a file, by column."""

    cells: Mapping[str, Sequence[str]]
    kinds: Mapping[str, Kind]

    def write(self, splits: Mapping[str, Sequence[int]], folder: Path) -> dict[str, Path]:
        """Write ``.csv`` files with commas, in UTF-8; the cells are unchanged.

        A ``.csv`` file does not contain the kinds of its columns. So if a column of text has only numbers in one of the
        splits, all are written as ``.jsonl`` files, which do contain them.
        """
        mixed = any(
            kind == "text" and find_kind(self.cells[name][row] for row in rows) not in {"text", None}
            for rows in splits.values()
            for name, kind in self.kinds.items()
        )
        write = self._write_lines if mixed else self._write_cells
        return {name: write(rows, folder / name) for name, rows in splits.items()}

    def _write_cells(self, rows: Sequence[int], place: Path) -> Path:
        path = place.with_name(f"{place.name}.csv")
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(self.cells)
            writer.writerows([column[row] for column in self.cells.values()] for row in rows)
        return path

    def _write_lines(self, rows: Sequence[int], place: Path) -> Path:
        path = place.with_name(f"{place.name}.jsonl")
        names = [(json.dumps(name, ensure_ascii=False), name) for name in self.cells]
        with path.open("w", encoding="utf-8", newline="") as stream:
            for row in rows:
                pairs = (f"{key}: {_write_json(self.cells[name][row], self.kinds[name])}" for key, name in names)
                stream.write("{" + ", ".join(pairs) + "}\n")
        return path


def _write_json(cell: str, kind: Kind) -> str:
    if cell == "" or (kind != "text" and cell in MISSING):
        return "null"
    if kind == "truth":
        return cell.lower()
    if kind == "number":
        return cell if _JSON.fullmatch(cell) else json.dumps(float(cell))
    return json.dumps(cell, ensure_ascii=False)


def read_csv(*paths: Path, path: Path | None = None, needs: Collection[str] = ()) -> Table:
    """Read files of delimited text, one after another; what was decided is in the notes.

    Args:
        paths: The files.
        path: The folder in which they are; the file itself by default.
        needs: Columns that the model takes; one of them is kept even if it looks like an index.

    Raises:
        HoneError: ``data-unreadable`` or ``data-empty``.
    """
    place = path or paths[0]
    cells: Cells = {}
    notes: dict[str, None] = {}
    delimiters = set()
    for file in paths:
        text, said = read_text(file)
        header, records, delimiter = _read_records(file, text)
        part, dropped = _name_columns(file, header, records, needs=needs)
        join_columns(file, cells, part)
        delimiters.add(delimiter)
        notes |= dict.fromkeys((*said, *dropped))
    rows = check_counts(place, {name: len(column) for name, column in cells.items()})
    others = delimiters - {","}
    notes |= dict.fromkeys(
        f"{place.name} has values between {_DELIMITERS[one]}; its splits have commas" for one in sorted(others)
    )
    notes |= dict.fromkeys(convert_decimals(place, cells) if others else ())
    kinds: dict[str, Kind] = {name: find_kind(column) or "number" for name, column in cells.items()}
    notes |= dict.fromkeys(_describe_dates(cells, kinds, needs))
    return Table(place, cells, kinds, rows, CsvContent(cells, kinds), tuple(notes))


def _read_records(path: Path, text: str) -> tuple[list[str], list[list[str]], str]:
    """Return the header, the values of each line below it, and the delimiter."""
    stated = _STATED.match(text)
    if stated:
        text = text[stated.end() :]
    known = stated[1] if stated and stated[1] in _DELIMITERS else None
    delimiter = known or _find_delimiter(text, tabs=path.suffix == ".tsv")
    found = [record for record in _split(path, text, delimiter) if record[1]]
    if not found:
        check_counts(path, {})
    header, lines = found[0][1], found[1:]
    longer = len(header) + 1 if lines and all(len(record) == len(header) + 1 for _, record in lines) else len(header)
    for line, record in lines:
        if len(record) != longer:
            why = f"Line {line} has {len(record)} values, and the header has {len(header)} between "
            why += f"{_DELIMITERS[delimiter]}."
            hint = "Put quotes around text that contains the delimiter, and fill or remove lines that were cut off."
            raise find_unreadable(path, why, hint)
    return ["", *header] if longer > len(header) else header, [record for _, record in lines], delimiter


def _split(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line of each record, and its values."""
    before = csv.field_size_limit(max(len(text), 1))
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        yield from ((reader.line_num, record) for record in reader)
    except csv.Error as error:
        why = f"Line {reader.line_num}: {error}."
        raise find_unreadable(path, why, "Write it with quotes around text that contains quotes.") from error
    finally:
        csv.field_size_limit(before)


def _find_delimiter(text: str, *, tabs: bool) -> str:
    """Return the delimiter by which most of the first lines have as many values as the header, and most values."""
    best, most = ",", (0.0, 1, False)
    if len(text) > _SAMPLED:  # what is cut off would only be copied
        text = text[: text.rfind("\n", 0, _SAMPLED) + 1] or text
    for delimiter in _DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            records = [record for record, _ in zip(reader, range(_SAMPLE), strict=False) if record]
        except csv.Error:
            continue
        width = len(records[0]) if records else 1
        if width > 1:
            fits = sum(len(record) in {width, width + 1} for record in records) / len(records)
            score = (round(fits, 1), width, tabs and delimiter == "\t")
            best, most = (delimiter, score) if score > most else (best, most)
    return best


def _name_columns(
    path: Path, header: list[str], records: list[list[str]], *, needs: Collection[str]
) -> tuple[Cells, list[str]]:
    """Return the columns by name, without an index or an empty column that has no name, and notes about these."""
    if header and all(is_number(name) for name in header) and not _are_numbered(header):
        why = f"Its first line has no names but only numbers, such as {header[0]!r}."
        raise find_unreadable(path, why, "Write a first line with the names of the columns.")
    cells: Cells = {}
    notes = []
    columns = map(list, zip(*records, strict=True)) if records else ([] for _ in header)
    for at, (name, column) in enumerate(zip(header, columns, strict=True)):
        unnamed = f"Unnamed: {at}"
        if _UNNAMED.fullmatch(name) and not {name, unnamed} & set(needs):
            if not any(column):
                continue
            if at == 0 and len(set(column)) == len(column):
                notes.append("the first column has no name and another value in each row: it is an index, left out")
                continue
        named = unique = name or unnamed
        for number in range(1, len(header) + 1):
            if unique not in cells:
                break
            unique = f"{named}.{number}"
        if unique != named:
            notes.append(f"two columns have the name {named!r}; the second is now {unique!r}")
        cells[unique] = column
    return cells, notes


def _are_numbered(header: list[str]) -> bool:
    return sorted(header) == sorted(map(str, range(len(header))))


def _describe_dates(cells: Cells, kinds: Mapping[str, Kind], needs: Collection[str]) -> Iterator[str]:
    """Yield a note for each column of dates that the model takes; of every one if its columns are unknown."""
    taken = [name for name in cells if name in needs] or list(cells)
    for name in taken:
        column = cells[name]
        known = [cell for cell in column if cell not in MISSING] if kinds[name] == "text" else []
        if known and all(_DATE.fullmatch(cell) for cell in known[:_SAMPLE]):
            yield f"{name!r} contains dates, such as {known[0]!r}, which the model gets as text"
