"""How many words of a text are wrong (Levenshtein's distance)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def count_edits(given: Sequence[str], wanted: Sequence[str]) -> int:
    """Return the fewest substitutions, deletions and insertions that convert one sequence to the other."""
    numbers = {word: number for number, word in enumerate({*given, *wanted})}
    theirs = np.array([numbers[word] for word in wanted], dtype=np.int64)
    steps = np.arange(len(theirs) + 1)
    row = steps.copy()
    for word in given:
        changed = np.minimum(row[1:] + 1, row[:-1] + (theirs != numbers[word]))
        row = np.concatenate([[row[0] + 1], changed])
        row = np.minimum.accumulate(row - steps) + steps  # each deletion costs 1
    return int(row[-1])
