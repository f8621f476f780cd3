"""Files of delimited text (``.csv``, ``.tsv``), as people have them: any delimiter, encoding and decimal mark."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np

from hone_runtime.interfaces.texts import is_missing
from kedro_hone.derivation.decimals import convert_decimals
from kedro_hone.derivation.encodings import read_text
from kedro_hone.derivation.fingerprints import is_number
from kedro_hone.derivation.rows import Column, Kind, Table, check_counts, find_unreadable, join_columns
from kedro_hone.programs.worker import formats
from kedro_hone.programs.worker.formats import MISSING

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
    """The cells of a file by column, and what they are for the programs."""

    cells: Mapping[str, Sequence[str]]
    columns: Mapping[str, Column]
    kinds: Mapping[str, Kind]

    def write(self, splits: Mapping[str, Sequence[int]], folder: Path) -> dict[str, Path]:
        """Write ``.csv`` files with commas, in UTF-8; the cells are unchanged.

        A ``.csv`` file does not contain the kinds of its columns. So if a column of text has only numbers, or
        words such as NA, in one of the splits, all are written as ``.jsonl`` files, which do contain them.
        """
        texts = {name: self.cells[name] for name, kind in self.kinds.items() if kind == "text"}
        mixed = any(
            kind != "text" and any(texts[name][row] for row in rows)
            for rows in splits.values()
            for name, (_, kind) in _read_kinds(texts, rows).items()
        )
        write = self._write_lines if mixed else self._write_cells
        return {name: write(rows, folder / name) for name, rows in splits.items()}

    def _write_cells(self, rows: Sequence[int], place: Path) -> Path:
        path = place.with_name(f"{place.name}.csv")
        with path.open("w", encoding="utf-8", newline="") as stream:
            _write_rows(stream, self.cells, rows)
        return path

    def _write_lines(self, rows: Sequence[int], place: Path) -> Path:
        path = place.with_name(f"{place.name}.jsonl")
        names = [(json.dumps(name, ensure_ascii=False), name) for name in self.cells]
        with path.open("w", encoding="utf-8", newline="") as stream:
            for row in rows:
                pairs = (f"{key}: {self._write_json(name, row)}" for key, name in names)
                stream.write("{" + ", ".join(pairs) + "}\n")
        return path

    def _write_json(self, name: str, row: int) -> str:
        value, cell = self.columns[name][row], self.cells[name][row]
        if is_missing(value):
            return "null"
        if self.kinds[name] != "number":
            return json.dumps(value, ensure_ascii=False)
        return cell if _JSON.fullmatch(cell) else json.dumps(value.item())


def _write_rows(stream: TextIO, cells: Mapping[str, Sequence[str]], rows: Iterable[int]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(cells)
    writer.writerows([column[row] for column in cells.values()] for row in rows)


def _read_kinds(cells: Mapping[str, Sequence[str]], rows: Iterable[int]) -> dict[str, tuple[Column, Kind | None]]:
    """Return some rows of each column as the programs read them from a ``.csv`` file, and its kind; None if empty."""
    if not cells:
        return {}
    stream = io.StringIO(newline="")
    _write_rows(stream, cells, rows)
    stream.seek(0)
    frame = formats.read_csv(stream)
    return {name: _read_column(frame.iloc[:, at]) for at, name in enumerate(cells)}


def _read_column(column: Any) -> tuple[Column, Kind | None]:
    known = column.dropna()
    if not len(known) or formats.is_text(column):
        return formats.make_array(column), "text" if len(known) else None
    if all(isinstance(value, bool | np.bool_) for value in known):
        return [None if is_missing(value) else bool(value) for value in column], "truth"
    return formats.make_array(column), "number"


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
    read = _read_kinds(cells, range(rows))
    columns = {name: column for name, (column, _) in read.items()}
    kinds: dict[str, Kind] = {name: kind or "number" for name, (_, kind) in read.items()}
    notes |= dict.fromkeys(_describe_dates(cells, kinds, needs))
    return Table(place, columns, kinds, rows, CsvContent(cells, columns, kinds), tuple(notes))


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
