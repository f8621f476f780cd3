"""Rows that are in two splits: by mistake, or naturally, since a table with few values has equal rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any

Hashes = Mapping[str, Sequence[bytes]]
"""By split, a hash of each of its rows."""

COPIES_LIMIT = 0.01
"""The largest share of rows that may be copies of others without a warning."""
_ORDER = ("gate", "search", "training", "calibration")
"""A row counts in the first of these splits that contains it."""
_TRAINS, _JUDGES = "training", ("gate", "search")
"""What trains shares no row with what judges, also where rows are equal by nature."""
_MARGIN = 3
"""Equal rows of two splits may be this many times as frequent as those within them, since the latter are few."""
_LEAST = 0.25
"""The share of a split that must remain if rows are left out."""


def find_overlaps(hashes: Hashes) -> Iterator[dict[str, Any]]:
    """Yield for each pair of splits with copied rows: the number of different ones, and the positions of the first.

    Naturally equal rows are as frequent within a split as between two. They are left out of the rows that train, so of
    these enough must remain.
    """
    emptied = _is_emptied(hashes)
    for names in combinations(hashes, 2):
        first, second = (Counter(hashes[name]) for name in names)
        trains = emptied and _TRAINS in names and not {*names}.isdisjoint(_JUDGES)
        if (shared := first.keys() & second.keys()) and (trains or not _is_natural(first, second)):
            places = [{row: at for at, row in reversed([*enumerate(hashes[name])])} for name in names]
            example = min(shared, key=places[0].__getitem__)
            rows = [place[example] for place in places]
            yield {"splits": [*names], "count": len(shared), "example_rows": rows}


def _is_emptied(hashes: Hashes) -> bool:
    """Return whether too few rows would train without those that judge."""
    judges = {row for name in _JUDGES for row in hashes.get(name, ())}
    rows = hashes.get(_TRAINS, ())
    return sum(row not in judges for row in rows) < _LEAST * len(rows)


def _is_natural(first: Counter[bytes], second: Counter[bytes]) -> bool:
    """Return whether two splits have no more equal rows than rows from one source have by chance.

    Each of them must itself have as many repeats as expected from such a source: rows written twice in one split are no
    evidence for the other. A split without repeats that is nearly completely in the other is a copy, however small it
    is.
    """
    between = sum(count * second[row] for row, count in first.items() if row in second)
    share = between / (first.total() * second.total())
    within, pairs = ([of(one) for one in (first, second)] for of in (_count_equal, _count_pairs))
    if not sum(within) or share * sum(pairs) > _MARGIN * sum(within):
        return False
    few = all(share * most <= _MARGIN * (equal + 1) for equal, most in zip(within, pairs, strict=True))
    return few and not (_is_copied(first, second) or _is_copied(second, first))


def _count_equal(rows: Counter[bytes]) -> int:
    return sum(comb(count, 2) for count in rows.values())


def _count_pairs(rows: Counter[bytes]) -> int:
    return comb(rows.total(), 2)


def _is_copied(rows: Counter[bytes], other: Counter[bytes]) -> bool:
    """Return whether rows are all different, and too few would remain without those of another split."""
    return len(rows) == rows.total() and len(rows.keys() - other.keys()) < _LEAST * len(rows)


def find_repeats(hashes: Hashes) -> tuple[dict[str, list[int]], list[str]]:
    """Return which rows of a split remain if others are in a more important one, and one sentence for all of them.

    If too few would remain, all do. Of rows that train this is an overlap: see ``find_overlaps``.
    """
    kept, said, fewer, seen = dict[str, list[int]](), list[str](), list[str](), set[bytes]()
    for name in (one for one in _ORDER if one in hashes):
        rows = hashes[name]
        stay = [at for at, row in enumerate(rows) if row not in seen]
        before = " or ".join(one for one in _ORDER[: _ORDER.index(name)] if one in hashes)
        if len(stay) < len(rows):
            count = f"{len(rows) - len(stay)} of {len(rows)} rows are rows of {before}"
            if len(stay) >= _LEAST * len(rows):
                kept[name] = stay
                fewer.append(f"{name}: {count}")
            else:
                different = len(set(rows) | seen)
                said.append(
                    f"{name}: {count}, too, since there are only {different} different ones: all of them stay, and the "
                    "choice of candidates on this split is not independent evidence"
                )
        seen.update(rows)
    if fewer:
        said.append(f"{'; '.join(fewer)}, too, and left out: equal rows, as a table of few values has, count once")
    return kept, said


def describe_copies(hashes: Sequence[bytes]) -> Iterator[str]:
    """Yield how many rows are copies of other rows of the same split, if they are more than 1 %."""
    if (count := len(hashes) - len(set(hashes))) > COPIES_LIMIT * len(hashes):
        yield f"{count} of {len(hashes)} rows are copies of other rows; they prove nothing more"
