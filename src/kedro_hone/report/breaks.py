"""Where a page may break the line inside a long identifier, so that no word is broken in the middle."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from hone_runtime.text import clean_text


def break_after_marks(name: str, marks: str = "._") -> Markup:
    """Return a text for a page that may be broken after some marks.

    It is cleaned first: a secret with a break inside would not be recognized any more.
    """
    parts = re.split(f"(?<=[{re.escape(marks)}])", clean_text(name))
    return Markup("<wbr>").join(escape(part) for part in parts if part)
