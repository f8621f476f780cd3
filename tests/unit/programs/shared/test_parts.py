"""The parts of an output: unlike scales in one array, and parts that a candidate lost."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.programs.shared.parts import (
    find_constant,
    find_fillers,
    find_least_similar,
    is_distribution,
    measure_least_similar,
    measure_scales,
)
from kedro_hone.programs.shared.similarity import measure_similarity

RANDOM = np.random.default_rng(0)
BOXES = RANDOM.uniform(0, 640, (30, 4, 50))
SCORES = RANDOM.uniform(0, 1, (30, 3, 50))
DETECTED = np.concatenate([BOXES, SCORES], axis=1)


def test_each_part_has_its_own_scale():
    scales = measure_scales(DETECTED, 1)
    assert scales[:4] == pytest.approx(640, rel=0.01)
    assert scales[4:] == pytest.approx(1, rel=0.01)


def test_what_is_next_to_nothing_has_the_scale_of_noise():
    output = np.stack([np.full(5, 2.0), np.full(5, 1e-15)], axis=1)
    assert measure_scales(output, 1).tolist() == [2.0, 2e-10]


@pytest.mark.parametrize("axis", [1, 2])
def test_a_part_that_one_value_is_left_of_is_found(axis):
    wanted = np.moveaxis(DETECTED, 1, axis)
    lost = wanted.copy()
    lost[(slice(None),) * axis + (5,)] = 0.25
    part = find_constant(wanted, lost)
    assert (part.axis, part.place) == (axis, 5)
    assert str(part) == f"[{', '.join([':'] * axis)}, 5]"
    assert find_constant(wanted, wanted + 1e-3) is None


def test_columns_of_a_table_are_parts_too():
    """A price in thousands, and a share: a static int8 of one scale has no share left."""
    wanted = np.stack([RANDOM.uniform(1e3, 9e3, 40), RANDOM.uniform(0, 1, 40)], axis=1)
    rounded = np.round(wanted / 50) * 50
    assert (find_constant(wanted, rounded).axis, find_constant(wanted, rounded).place) == (1, 1)


def test_a_part_that_is_constant_in_the_source_may_be():
    wanted = DETECTED.copy()
    wanted[:, 6] = 0.5
    assert find_constant(wanted, wanted + 1e-4 * np.sign(wanted)) is None


def test_a_class_that_is_never_likely_may_be_rounded_away():
    """Probabilities have one unit: a class of at most 1 % is not predicted, with or without it."""
    odds = RANDOM.uniform(0.2, 0.8, (40, 1))
    rare = RANDOM.uniform(0, 0.01, (40, 1))
    wanted = np.concatenate([odds - rare, 1 - odds, rare], axis=1)
    assert is_distribution(wanted, 1)
    given = wanted.copy()
    given[:, 2] = 0
    assert find_constant(wanted, given) is None
    given[:, 1] = 0.5
    assert find_constant(wanted, given).place == 1


def test_the_least_similar_part_counts_where_the_whole_hides_it():
    lost = DETECTED.copy()
    lost[:, 4:] = 0
    assert measure_least_similar(lost, DETECTED).mean() == pytest.approx(0.0, abs=0.1)
    assert measure_similarity(lost, DETECTED, "cosine").mean() < 0.3
    noisy = DETECTED * (1 + RANDOM.normal(0, 0.01, DETECTED.shape))
    assert measure_similarity(noisy, DETECTED, "cosine").min() > 0.999


@pytest.mark.parametrize("axis", [1, 2])
def test_the_part_that_is_the_least_like_the_source_s_is_named(axis):
    wanted = np.moveaxis(DETECTED, 1, axis)
    given = wanted * 1.01
    given[(slice(None),) * axis + (5,)] *= 1.5
    part = find_least_similar(given, wanted)
    assert (part.axis, part.place) == (axis, 5)
    assert find_least_similar(wanted[:, 0, 0] + 1, wanted[:, 0, 0]) is None


@pytest.mark.parametrize("how", ["cosine", "l2", "argmax", "equal"])
def test_equal_infinities_are_equal_and_others_are_not(how):
    wanted = np.array([[1.0, -np.inf, 0.5], [2.0, np.nan, 0.1], [3.0, 1.0, 0.0]])
    if how == "equal":
        wanted[1, 1] = np.inf
    assert measure_similarity(wanted.copy(), wanted, how).tolist() == [1, 1, 1]
    other = wanted.copy()
    other[0, 1], other[2, 1] = np.inf, np.nan
    found = measure_similarity(other, wanted, how)
    assert found[1] == 1
    assert found[0] < 1
    assert found[2] < 1


def test_what_varies_in_few_rows_only_may_be_rounded_away():
    """A channel behind a ReLU, or the border of a mask, with one weak number: int8 has 0 for it."""
    wanted = RANDOM.uniform(0, 1, (200, 8))
    wanted[:, 3] = 0
    wanted[7, 3] = 0.01
    given = wanted.copy()
    given[7, 3] = 0
    assert find_constant(wanted, given) is None
    wanted[::10, 3] = 0.5
    assert find_constant(wanted, given).place == 3


@pytest.mark.parametrize("mask", [-1e9, float(np.finfo(np.float32).min), -1e4])
def test_the_number_of_a_mask_hides_nothing(mask):
    wanted = RANDOM.normal(size=(40, 8)).astype(np.float32)
    wanted[:, 0] = mask
    noise = RANDOM.normal(size=wanted.shape).astype(np.float32)
    noise[:, 0] = mask
    assert measure_similarity(noise, wanted, "cosine").mean() < 0.3
    assert measure_similarity(wanted.copy(), wanted, "cosine").tolist() == [1.0] * 40
    lost = wanted.copy()
    lost[:, 0] = 0
    assert measure_similarity(lost, wanted, "cosine").max() < 0.1
    assert find_fillers(wanted, wanted).sum() == 40


def test_prices_are_no_masks():
    prices = RANDOM.uniform(10, 90_000, (40, 2))
    assert not find_fillers(prices, prices).any()
