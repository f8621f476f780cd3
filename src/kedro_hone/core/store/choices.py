"""Records of the candidates that persons chose for a model, next to the store's objects: each counts at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from kedro_hone.core.store.disk import append_line

_FILE: Final = "choices.jsonl"


def count_choice(root: Path, *, judged: str, run: str, candidate: str) -> int:
    """Record the choice of a candidate, and return its number among the choices by the same data, from 1.

    An interrupted choice counts, and so does the same candidate again: its judgement may have been seen. So does a
    choice after a new search, since its gate has the same data. Runs at the same time get different numbers.

    Args:
        root: The store's folder.
        judged: Identifies the choices that are counted together: the model, and the data that it is judged by.
        run: The id of the run that judges the choice.
        candidate: Its id.
    """
    line = json.dumps([judged, run, candidate])
    append_line(root / _FILE, f"\n{line}")  # a truncated line before it must not corrupt this one
    lines = (root / _FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    before = lines[: lines.index(line)]
    return 1 + sum(other.startswith(json.dumps([judged])[:-1]) for other in before)
