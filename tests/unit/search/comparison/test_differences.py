"""What counts as a difference of two results for the same rows, and what is rounding."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.search.comparison.differences import find_discrepancy, measure_errors, measure_scale

INF, NAN = np.inf, np.nan


def find(one, other, *, bound=1e-3, least=0.1):
    one, other = np.asarray(one), np.asarray(other)
    return find_discrepancy("y", one, other, places=range(100, 100 + len(one)), bound=bound, least=least)


def test_equal_infinities_and_nan_do_not_differ_and_others_do():
    one = np.array([[1.0, -INF, INF, NAN, 1.0]])
    other = np.array([[1.0, -INF, -INF, NAN, NAN]])

    assert measure_errors(one, one).max() == 0
    assert measure_errors(one, other).tolist() == [[0, 0, INF, 0, INF]]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([0.0, 0.0], 1.0),
        ([1.0, -3.0, INF, NAN], 3.0),
        ([-1e9, 2.0, -4.0], 4.0),
        ([np.finfo(np.float32).min, 2.0], 2.0),
        ([1e6, 2e6], 2e6),
        ([1e4, 2e4, 4e4, 0.5], 4e4),
        ([1e9, 0.0], 1e9),
    ],
)
def test_what_is_large_is_no_mask(values, scale):
    assert measure_scale(np.array([values])) == pytest.approx(scale)


def test_numbers_that_are_larger_than_the_others_are_judged_by_themselves():
    one = np.array([[1e9, 1.0]] * 4)

    assert measure_errors(one, one * (1 + 1e-7)).max() < 1e-6


def test_the_worst_number_of_the_rows_that_differ_is_told():
    one = np.arange(40.0).reshape(10, 4)
    other = one.copy()
    other[[3, 7], :] += [[1.0], [2.0]]

    found = find(one, other)

    assert (found.row, found.one, found.other, found.rows, found.compared) == (107, "28", "30", 2, 10)
    assert found.describe("at first", "alone") == (
        "'y' of row 107 of the search split is 28 at first, and 30 alone; 2 of 10 rows differ."
    )


def test_small_differences_are_shown_with_more_digits():
    found = find(np.full((4, 2), 1.0), np.full((4, 2), 1.00001), bound=1e-6)

    assert (found.one, found.other) == ("1", "1.00001")


def test_one_row_or_few_of_many_may_go_the_other_way():
    one, other = np.zeros((40, 3)), np.zeros((40, 3))
    other[0] = 1.0
    assert find(one, other) is None
    assert find(one, other, least=0.0) is not None
    other[1:3] = 1.0
    assert find(one, other) is None, "3 of 40 are less than a tenth"
    other[3] = 1.0
    assert find(one, other) is not None


def test_two_of_many_numbers_of_a_row_may_change_places():
    one = np.tile(np.arange(200.0), (6, 1))
    other = one.copy()
    other[:, [50, 51]] = one[:, [51, 50]]

    assert find(one, other) is None
    assert find(one, other, least=0.0) is not None


@pytest.mark.parametrize("kind", [np.int64, np.bool_, "U5"])
def test_what_is_no_float_is_equal_or_not(kind):
    one = (np.arange(12).reshape(6, 2) % 2).astype(kind)
    other = one[:, ::-1]

    assert find(one, one) is None
    assert find(one, other) is not None


def test_integers_over_a_wide_range_may_be_rounded_the_other_way():
    one = np.arange(0, 240, dtype=np.uint8).reshape(60, 4)

    assert find(one, one + np.uint8(1)) is None
    assert find(one, one + np.uint8(2)) is not None


def test_nothing_does_not_differ_from_nothing():
    assert find(np.zeros((4, 0)), np.zeros((4, 0))) is None
    assert find(np.zeros((0, 4)), np.zeros((0, 4))) is None


def test_a_single_row_differs_by_itself():
    assert find([[1.0]], [[2.0]]) is not None


def test_each_part_differs_by_its_own_scale():
    one = np.stack([np.linspace(0, 320, 40), np.linspace(0, 1e-3, 40)], axis=1)
    other = one.copy()
    other[::2, 1] = 0.0
    assert np.abs(other - one).max() < 1e-3 * 320

    found = find(one, other)

    assert (found.row, found.rows) == (138, 19)
    assert find(one[:, :, None].repeat(3, axis=2), other[:, :, None].repeat(3, axis=2)).rows == 19


def test_a_small_part_that_is_the_rounding_of_a_larger_one_has_no_scale_of_its_own():
    draw = np.random.default_rng(0)
    one = np.stack([np.linspace(0, 320, 40), draw.normal(size=40) * 1e-5], axis=1)
    other = one.copy()
    other[:, 1] = draw.normal(size=40) * 1e-5

    assert find(one, other) is not None
    noise = np.array([False, True])
    assert find_discrepancy("y", one, other, places=range(40), bound=1e-3, least=0.1, noise=noise) is None
