"""Characters that foreign text must not bring to a terminal or a page."""

from __future__ import annotations

import unicodedata

CONTROLS = "\x1b[2J \x1b]0;OWNED\x07 \x00 \r \x7f \x9b31m \x85 \u202e rtl \u2066 \u2069"
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def find_controls(text: str) -> list[str]:
    """Return the control characters of a text that do more than end a line or a cell."""
    return [sign for sign in text if sign in _TURNS or (unicodedata.category(sign) == "Cc" and sign not in "\n\t")]
