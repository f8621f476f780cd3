"""The best span of a context, and the comparison of answers as in SQuAD's official script (evaluate-v2.0.py)."""

from __future__ import annotations

import re
import string
from collections import Counter

import numpy as np

from ..shared.arrays import Array

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(answer: str) -> str:
    """Return an answer in lower case, without punctuation and articles, with single spaces."""
    plain = answer.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def compare_exactly(given: str, wanted: str) -> float:
    """Return 1 if two answers are equal, otherwise 0."""
    return float(normalize(given) == normalize(wanted))


def compare_words(given: str, wanted: str) -> float:
    """Return the F1 of the words of two answers; if one is empty, whether both are."""
    ours, theirs = normalize(given).split(), normalize(wanted).split()
    if not (ours and theirs):
        return float(ours == theirs)
    same = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * same / (len(ours) + len(theirs))


def find_spans(start: Array, end: Array, spans: Array, *, longest: int, empty: bool) -> tuple[Array, Array]:
    """Return the first and the last token of the best span of each context, by the sum of their scores.

    Scores are (rows, tokens), and spans have -1 for tokens outside the context. If answers may be ``empty``, the first
    token, ``[CLS]``, stands for no answer: -1 is returned if it has a better sum. -1 is also returned if no score is
    finite (``find_known`` distinguishes these cases).
    """
    spans = spans[:, : start.shape[1]]  # rows may be cut to a shape
    inside = np.pad(spans[..., 0] >= 0, ((0, 0), (0, start.shape[1] - spans.shape[1])))
    firsts, lasts = (np.where(inside & np.isfinite(each), each.astype(np.float64), -np.inf) for each in (start, end))
    rows = np.arange(len(start))
    best = np.full(len(start), -np.inf)
    first, last = np.full(len(start), -1), np.full(len(start), -1)
    for more in range(min(longest, start.shape[1])):
        sums = firsts[:, : start.shape[1] - more] + lasts[:, more:]
        at = sums.argmax(axis=1)
        better = sums[rows, at] > best
        best, first, last = (
            np.where(better, new, old) for new, old in ((sums[rows, at], best), (at, first), (at + more, last))
        )
    if empty:
        none = start[:, 0].astype(np.float64) + end[:, 0] > best
        first, last = np.where(none, -1, first), np.where(none, -1, last)
    return first, last


def find_known(start: Array, end: Array, spans: Array) -> Array:
    """Return for each context whether its scores are valid: without NaN, and with at least one finite score.

    Scores outside the context do not count, except that of the first token. An infinite score may exclude a token.
    """
    spans = spans[:, : start.shape[1]]
    inside = np.pad(spans[..., 0] >= 0, ((0, 0), (0, start.shape[1] - spans.shape[1])))
    asked = inside.copy()
    asked[:, :1] = True
    known = ~inside.any(axis=1)
    known |= (inside & np.isfinite(start)).any(axis=1) & (inside & np.isfinite(end)).any(axis=1)
    return np.asarray(known & ~((np.isnan(start) | np.isnan(end)) & asked).any(axis=1))
