"""chrF (Popović, 2015), as sacrebleu computes it by default: characters up to 6-grams, beta 2, without white space."""

from __future__ import annotations

from collections import Counter

from ..shared.arrays import Array

ORDER, BETA = 6, 2


def count_ngrams(given: str, wanted: str) -> list[int]:
    """Return for each order the number of n-grams of a text, of its reference, and of those that they share."""
    numbers = []
    for order in range(1, ORDER + 1):
        ours, theirs = (_list_ngrams("".join(text.split()), order) for text in (given, wanted))
        count = ours.total() if theirs else 0  # what has no reference is not counted
        numbers += [count, theirs.total(), (ours & theirs).total()]
    return numbers


def _list_ngrams(text: str, order: int) -> Counter[str]:
    return Counter(text[at : at + order] for at in range(len(text) - order + 1))


def measure_chrf(sums: Array) -> float:
    """Return the F-score of the mean precision and the mean recall of the orders, from 0 to 1."""
    parts = [(right / given, right / wanted) for given, wanted, right in sums.reshape(-1, 3) if given and wanted]
    if not parts:
        return 0.0
    precision, recall = (sum(part) / len(parts) for part in zip(*parts, strict=True))
    if not precision + recall:
        return 0.0
    return float((1 + BETA**2) * precision * recall / (BETA**2 * precision + recall))
