"""Records of operator counts."""

from __future__ import annotations

from hone_runtime.values.operators import make_operators


def test_counts_are_sums_over_all_kinds_and_the_five_most_frequent_are_listed():
    kinds = {f"Kind{number}": number for number in range(1, 8)}
    record = make_operators("a", "batch1", {"other": {"Cast": 1}, "fp32": {}, "int8": kinds})
    assert list(record.counts.items()) == [("int8", 28), ("other", 1)]
    assert list(record.kinds["int8"]) == ["Kind7", "Kind6", "Kind5", "Kind4", "Kind3"]


def test_what_is_not_known_differs_from_no_operators():
    assert make_operators("a", "batch1", None).counts is None
    assert make_operators("a", "batch1", {}).counts == {}


def test_a_long_name_is_cut():
    (name,) = make_operators("a", "batch1", {"fp32": {"x" * 5000: 2}}).kinds["fp32"]
    assert len(name) == 64
