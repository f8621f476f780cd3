"""Rows of derived splits in errors, as the rows of the user's own file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from hone_runtime.errors import HoneError, read_lines
from hone_runtime.values.samples import SPLITS

_SPLIT: Final = re.compile(rf"\((?P<split>{'|'.join(SPLITS)}): [^()]*\)")
_ROW: Final = re.compile(r"\brow (?P<row>\d+)\b")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The file of which splits were made.

    Attributes:
        file: Its name.
        rows: The numbers of its rows in each split, from 0, by the name of the split.
    """

    file: str
    rows: Mapping[str, Sequence[int]]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return lines in which each row after the name of a split is that of the file."""
        found, split = [], ""
        for line in lines:
            parts = _SPLIT.split(line)
            texts = [self._translate_rows(parts[0], split)]
            for split, text in zip(parts[1::2], parts[2::2], strict=True):
                texts.append(f"({self.file}){self._translate_rows(text, split)}")
            found.append("".join(texts))
        return found

    def _translate_rows(self, text: str, split: str) -> str:
        rows = self.rows.get(split, ())

        def find(match: re.Match[str]) -> str:
            number = int(match["row"])
            return f"{self.file} row {rows[number]}" if number < len(rows) else match[0]

        return _ROW.sub(find, text)


@contextmanager
def name_origin(origin: Origin | None) -> Iterator[None]:
    """Name the user's file and its rows in errors that are raised in the block.

    Args:
        origin: The file; None if the splits are the user's own.
    """
    try:
        yield
    except HoneError as error:
        if origin is None:
            raise
        what, *why = origin.translate([error.what, *read_lines(error.why)])
        raise HoneError(error.slug, what, why=why, hint=read_lines(error.hint)) from error
