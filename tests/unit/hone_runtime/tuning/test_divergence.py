"""The distance between two models' outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hone_runtime.tuning.divergence import is_like_logits, measure_divergence

LOGITS = np.random.default_rng(0).normal(size=(32, 5)).astype(np.float32)


def test_equal_outputs_have_no_distance():
    assert measure_divergence({"y": LOGITS}, {"y": LOGITS}) == pytest.approx(0, abs=1e-12)


def test_logits_are_compared_by_their_softmax():
    """A constant added to a row changes no probability."""
    assert measure_divergence({"y": LOGITS}, {"y": LOGITS + 3}) == pytest.approx(0, abs=1e-9)
    wanted, made = np.array([[0.0, 0.0]]), np.array([[0.0, math.log(3)]])
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert measure_divergence({"y": wanted}, {"y": made}) == pytest.approx(expected)


def test_probabilities_are_taken_as_they_are():
    wanted, made = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert measure_divergence({"y": wanted}, {"y": made}) == pytest.approx(expected)


@pytest.mark.parametrize(
    "array",
    [np.arange(4.0), np.ones((4, 1)), np.eye(4), np.array([[0.0, 1.0, 2.0, 400.0]])],
    ids=["one axis", "one column", "unit length", "saturated"],
)
def test_other_numbers_are_compared_by_their_squared_error(array):
    assert not is_like_logits(array)
    error = measure_divergence({"y": array + np.linspace(0, 1, array.size).reshape(array.shape)}, {"y": array})
    assert error > 0


def test_the_squared_error_is_over_the_variance():
    wanted = np.array([[0.0], [2.0]])
    assert measure_divergence({"y": wanted}, {"y": wanted + 0.5}) == pytest.approx(0.25)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_infinitely_far(bad):
    assert measure_divergence({"y": LOGITS}, {"y": np.where(LOGITS > 1, bad, LOGITS)}) == math.inf


def test_places_where_the_source_is_not_finite_are_ignored():
    wanted = np.array([[0.0, -np.inf], [2.0, 1.0]])
    assert measure_divergence({"y": wanted}, {"y": np.array([[0.0, 7.0], [2.0, 1.0]])}) == 0
    assert measure_divergence({"y": np.full(3, np.nan)}, {"y": np.ones(3)}) == 0


def test_of_whole_numbers_the_differing_share_counts_and_outputs_add_up():
    labels = {"y": LOGITS, "label": np.array([1, 2, 3, 4])}
    assert measure_divergence(labels, {**labels, "label": np.array([1, 2, 3, 0])}) == pytest.approx(0.25, abs=1e-9)
