"""Which candidates were chosen of a race, next to the store's objects: each choice is counted before it is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

_FILE: Final = "choices.jsonl"


def count_choice(root: Path, *, race: str, run: str, candidate: str) -> int:
    """Note that a candidate is chosen, and return the how manieth of its race that is, from 1.

    A choice that is interrupted counts, and so does the same candidate again: what it was judged by may have been seen.
    Runs at the same time get different numbers.

    Args:
        root: The store's folder.
        race: The identity of the race's result.
        run: The id of the run that judges the choice.
        candidate: Its id.
    """
    line = json.dumps([race, run, candidate])
    with (root / _FILE).open("ab", buffering=0) as stream:  # a line that was cut off before it must not spoil this one
        stream.write(f"\n{line}\n".encode())
    lines = (root / _FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    before = lines[: lines.index(line)]
    return 1 + sum(other.startswith(json.dumps([race])[:-1]) for other in before)
