"""Values as source text: nothing in a name can end a literal, a comment or a cell of a table."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 120
"""The length of a line of generated code."""

_PLAIN: Final = frozenset(f"{string.ascii_letters}{string.digits}_ ./:+()-")
"""What ends no comment, no cell and no string."""


def quote(text: str) -> str:
    """Return a text as a literal of Python, in ASCII, as ``ruff format`` writes it."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    return mark + text.encode("unicode_escape").decode("ascii").replace(mark, f"\\{mark}") + mark


def quote_sizes(shape: Sequence[int | str], *, indent: int, before: str) -> str:
    """Return a shape as a tuple's literal, in one line if it fits.

    Args:
        shape: Sizes, and names of dynamic dimensions.
        indent: The number of blanks before the line.
        before: What is written before the tuple in its line; a comma follows it.
    """
    parts = [str(size) if isinstance(size, int) else quote(size) for size in shape]
    return join_parts(parts, indent=indent, before=f"{before}(", after="),", single="," if len(parts) == 1 else "")


def join_parts(parts: Sequence[str], *, indent: int, before: str, after: str, single: str = "") -> str:
    """Return parts between brackets in one line, or each in its own line if that is too long.

    Args:
        parts: What is separated by commas.
        indent: The number of blanks before the first line, which are not returned.
        before: Up to the opening bracket.
        after: From the closing bracket.
        single: What follows the parts if they are in one line.
    """
    line = f"{before}{', '.join(parts)}{single}{after}"
    if indent + len(line) <= WIDTH:
        return line
    blanks = " " * indent
    return "\n".join([before, *(f"{blanks}    {part}," for part in parts), f"{blanks}{after}"])


def show(name: str) -> str:
    """Return a name for comments and pages: as it is, or as a JSON string if it has other characters.

    In the string, whatever could end a comment or a cell of a table is an escape by its number.
    """
    if re.fullmatch(r"[A-Za-z0-9_./:+-]+", name):
        return name
    units = name.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    shown = (chr(code) if chr(code) in _PLAIN else rf"\u{code:04x}" for code in codes)
    return f'"{"".join(shown)}"'


def show_shape(shape: Sequence[int | str]) -> str:
    """Return a shape for comments, docstrings and pages, such as ``(batch, 64)``; a scalar's is ``()``."""
    return f"({_shorten(', '.join(str(size) if isinstance(size, int) else _mask(size) for size in shape), 60)})"


def _mask(name: str) -> str:
    return _shorten(re.sub(r"[^A-Za-z0-9_./:+-]", "?", name), 40)


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
