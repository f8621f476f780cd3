"""Decimal commas become points only where nothing else can be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.derivation.decimals import convert_decimals

PATH = Path("a.csv")


def test_decimal_commas_become_points_and_marks_of_thousands_are_removed():
    cells = {"x": ["1,5", "-0,25", "", "7"], "y": ["1.234,5", "12.345.678,00", "NA", "9,1"], "z": ["a,b", "c", "", ""]}
    assert convert_decimals(PATH, cells) == ("decimal commas were read as points, in 'x', 'y'",)
    assert cells["x"] == ["1.5", "-0.25", "", "7"]
    assert cells["y"] == ["1234.5", "12345678.00", "NA", "9.1"]
    assert cells["z"] == ["a,b", "c", "", ""]


def test_three_digits_are_decimals_if_another_number_has_a_decimal_comma():
    cells = {"x": ["1,234"], "y": ["0,5"]}
    convert_decimals(PATH, cells)
    assert cells == {"x": ["1.234"], "y": ["0.5"]}


def test_a_file_without_decimal_commas_is_unchanged():
    cells = {"x": ["1.5"], "y": ["a, b"], "z": ["1.234"]}
    assert convert_decimals(PATH, dict(cells)) == ()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"x": ["1,234", "5,678"]}, "'1,234' in 'x' may have a decimal comma or thousands"),
        ({"x": ["1,5"], "y": ["2.5"]}, "'y' has decimal points"),
        ({"x": ["1,5"], "y": ["1.234", "5"]}, "'1.234' in 'y' may have a decimal point or thousands"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(cells, said):
    with pytest.raises(HoneError) as caught:
        convert_decimals(PATH, cells)
    assert caught.value.slug == "data-unreadable"
    assert said in caught.value.why
