"""What an error about an unknown name says: which names there are, and the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str], what: str) -> tuple[str, str]:
    """Return the why and the hint for an unknown name: what there is (``what``, in the plural), and the nearest."""
    names = list(known)
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else "Choose one of these." if names else "Register one first."
    return f"There are the {what} {shown}." if names else f"There are no {what}.", hint
