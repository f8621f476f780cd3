"""Units are assigned whole: each class to all splits, and about as many rows as wanted."""

from __future__ import annotations

import pytest

from kedro_hone.derivation.assignment import IndivisibleError, assign
from kedro_hone.derivation.units import Unit

WANTED = {"calibration": 10, "search": 30, "gate": 60, "spare": 0}


def make_units(*sizes):
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    places = zip(starts, sizes, strict=True)
    return [Unit(bytes([at]), tuple(range(start, start + size))) for at, (start, size) in enumerate(places)]


def test_single_rows_are_divided_exactly():
    found = assign(make_units(*[1] * 100), None, WANTED)
    assert {split: len(rows) for split, rows in found.items()} == WANTED


def test_three_groups_of_a_rare_class_are_on_three_sides_also_among_others():
    units = make_units(*[1] * 70, *[10] * 3)
    labels = ["a"] * 70 + ["a"] * 9 + ["b"] + ["b"] + ["a"] * 9 + ["b"] * 5 + ["a"] * 5
    found = assign(units, labels, WANTED)
    for split in ("calibration", "search", "gate"):
        assert {labels[row] for row in found[split]} == {"a", "b"}


def test_spare_rows_need_no_class():
    wanted = {"calibration": 10, "search": 10, "gate": 10, "spare": 70}
    found = assign(make_units(*[1] * 100), ["rare"] * 3 + ["often"] * 97, wanted)
    for split in ("calibration", "search", "gate"):
        assert len([row for row in found[split] if row < 3]) == 1
    assert len(found["spare"]) == 68  # the two spare rows of the rare class are needed


def test_a_unit_that_fills_nearly_everything_is_refused():
    with pytest.raises(IndivisibleError, match="search would have 2 rows, not 30"):
        assign(make_units(97, 1, 1, 1), None, WANTED)
