"""The error about an unknown name: which names there are, and the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kedro_hone.core.errors import HoneError


def explain_unknown(
    slug: str, what: str, name: str, known: Iterable[str], nouns: str, *, advice: str = ""
) -> HoneError:
    """Return the error for an unknown name: what there is (``nouns``, in the plural), the nearest, and the advice."""
    names = list(known)
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else "Choose one of these." if names else "Register one first."
    why = f"There are the {nouns} {shown}." if names else f"There are no {nouns}."
    return HoneError(slug, what, why=why, hint=hint + advice)
