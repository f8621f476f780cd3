"""Units: rows that must be in one split, since they are copies of each other or belong to one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kedro_hone.derivation.fingerprints import encode_value
from kedro_hone.derivation.rows import Column

_MISSING = encode_value(None)


@dataclass(frozen=True)
class Unit:
    """Rows that stay together.

    Attributes:
        digest: The smallest hash of its rows, which determines its place among all units.
        rows: The numbers of its rows, ascending.
    """

    digest: bytes
    rows: tuple[int, ...]


def unite(hashes: Sequence[bytes], groups: Column | None) -> list[Unit]:
    """Return the units of a table, ordered by digest: rows that share a hash or a group, directly or through others.

    Args:
        hashes: The hash of each row's content.
        groups: The group of each row; a row with a missing value is in no group.
    """
    parents: dict[bytes, bytes] = {one: one for one in hashes}
    if groups is not None:
        first: dict[bytes, bytes] = {}
        for row, one in enumerate(hashes):
            group = encode_value(groups[row])
            if group != _MISSING:
                _merge(parents, one, first.setdefault(group, one))
    members: dict[bytes, list[int]] = {}
    for row, one in enumerate(hashes):
        members.setdefault(_find(parents, one), []).append(row)
    return [Unit(digest, tuple(rows)) for digest, rows in sorted(members.items())]


def _merge(parents: dict[bytes, bytes], one: bytes, other: bytes) -> None:
    """Join two trees; the smaller hash becomes the root, so that the order of the rows does not count."""
    low, high = sorted((_find(parents, one), _find(parents, other)))
    parents[high] = low


def _find(parents: dict[bytes, bytes], one: bytes) -> bytes:
    while parents[one] != one:
        parents[one] = one = parents[parents[one]]
    return one
