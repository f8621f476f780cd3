"""Units: copies and groups stay together, directly or through others."""

from __future__ import annotations

from kedro_hone.derivation.units import unite


def list_rows(hashes, groups=None):
    return sorted(unit.rows for unit in unite(hashes, groups))


def test_copies_are_one_unit():
    assert list_rows([b"a", b"b", b"a"]) == [(0, 2), (1,)]


def test_a_group_is_one_unit_and_a_missing_one_is_none():
    assert list_rows([b"a", b"b", b"c", b"d"], ["x", "", "x", "NA"]) == [(0, 2), (1,), (3,)]


def test_groups_that_share_a_copy_are_one_unit():
    assert list_rows([b"a", b"b", b"b", b"c", b"d"], [1, 1, 2, 2, 3]) == [(0, 1, 2, 3), (4,)]


def test_units_are_ordered_by_their_smallest_digest():
    units = unite([b"d", b"c", b"b", b"a"], ["x", "y", "x", "z"])
    assert [unit.digest for unit in units] == [b"a", b"b", b"c"]
