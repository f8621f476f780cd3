"""Cells of a ``.csv`` file: which are missing, numbers or truth values, as the programs read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kedro_hone.derivation.rows import Kind

MISSING: Final = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"}
    | {"N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""The cells that pandas reads as a missing number."""

_NUMBER: Final = re.compile(
    r"[ \t]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)[ \t]*", re.IGNORECASE
)
_PLAIN: Final = re.compile(r"(?:[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\n)*")
"""Usual numbers, one on each line: most columns are checked by one match for many cells."""
_CHUNK: Final = 4_096
_TRUTH: Final = frozenset(["True", "TRUE", "true", "False", "FALSE", "false"])


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, as pandas reads it."""
    return _NUMBER.fullmatch(cell) is not None


def find_kind(cells: Iterable[str]) -> Kind | None:
    """Return the kind of a column from its cells; None if all are missing."""
    known = {cell for cell in cells if cell not in MISSING}
    if not known:
        return None
    if known <= _TRUTH:
        return "truth"
    return "number" if _are_numbers(list(known)) else "text"


def _are_numbers(cells: Sequence[str]) -> bool:
    for first in range(0, len(cells), _CHUNK):
        chunk = cells[first : first + _CHUNK]
        if not _PLAIN.fullmatch("".join(f"{cell}\n" for cell in chunk)) and not all(map(is_number, chunk)):
            return False
    return True
