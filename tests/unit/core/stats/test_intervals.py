from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from hone_runtime.values.measurement import is_bounded
from kedro_hone.core.stats.intervals import (
    interval_of_bootstrap,
    interval_of_mean,
    interval_of_paired_proportions,
    interval_of_ratios,
    smallest_provable_drop,
)
from kedro_hone.core.stats.levels import correct_for_looks, share_confidence, spend_on_choice

RATIOS = st.lists(st.floats(0.01, 1000.0), min_size=2, max_size=20)


def test_a_ratio_is_the_geometric_mean_with_students_interval():
    ratios = [2.0, 3.0, 2.0]
    interval = interval_of_ratios(ratios, confidence=0.95)
    logs = np.log(ratios)
    low, high = distributions.t.interval(0.95, 2, loc=logs.mean(), scale=distributions.sem(logs))
    assert interval.estimate == pytest.approx(12 ** (1 / 3))
    assert (interval.low, interval.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert interval.confidence == 0.95


@settings(max_examples=50, deadline=None)
@given(RATIOS)
def test_swapping_source_and_candidate_inverts_the_interval(ratios):
    forth = interval_of_ratios(ratios, confidence=0.9)
    back = interval_of_ratios(np.reciprocal(ratios), confidence=0.9)
    assert (1 / back.high, 1 / back.estimate, 1 / back.low) == pytest.approx((forth.low, forth.estimate, forth.high))


@pytest.mark.parametrize(
    ("ratios", "reason"),
    [
        ([1.0], "an interval needs two values at least, not 1"),
        ([], "an interval needs two values at least, not 0"),
        *(([1.0, bad], "ratios are positive and finite") for bad in (0.0, -2.0, math.nan, math.inf)),
    ],
)
def test_ratios_that_make_no_interval_are_refused(ratios, reason):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        interval_of_ratios(ratios, confidence=0.95)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, math.nan])
def test_a_level_outside_0_and_1_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        interval_of_ratios([1.0, 2.0], confidence=confidence)
    with pytest.raises(ValueError, match="confidence"):
        correct_for_looks(confidence, looks=3)


@pytest.mark.parametrize(("looks", "bound"), [(2, 2.178), (3, 2.289), (4, 2.361), (5, 2.413), (10, 2.555), (20, 2.672)])
def test_the_level_of_several_looks_is_pococks(looks, bound):
    """Jennison and Turnbull 2000, table 2.1, alpha = 0.05."""
    level = correct_for_looks(0.95, looks=looks)
    assert distributions.norm.ppf((1 + level) / 2) == pytest.approx(bound, abs=6e-4)
    assert 0.95 < level < 1 - 0.05 / looks


def test_one_look_costs_nothing_and_none_is_refused():
    assert correct_for_looks(0.9, looks=1) == 0.9
    with pytest.raises(ValueError, match="once"):
        correct_for_looks(0.9, looks=0)


def test_the_level_is_shared_equally():
    assert share_confidence(0.95, finalists=1) == pytest.approx(0.95)
    assert share_confidence(0.94, finalists=3) == pytest.approx(0.98)
    with pytest.raises(ValueError, match="finalist"):
        share_confidence(0.95, finalists=0)


@given(st.floats(0.5, 0.999), st.integers(1, 60))
def test_all_choices_together_err_no_more_often_than_one_may(confidence, count):
    levels = [1 - spend_on_choice(confidence, number=number) for number in range(1, count + 1)]
    assert sum(levels) <= (1 - confidence) * (1 + 1e-9)
    assert levels[0] == pytest.approx((1 - confidence) / 2)


def test_choices_are_counted_from_one():
    with pytest.raises(ValueError, match="counted from 1"):
        spend_on_choice(0.95, number=0)


def test_a_mean_is_hardly_wider_than_students_where_many_rows_differ():
    rows = np.random.default_rng(0).normal(0.1, 1.0, 2000)
    interval = interval_of_mean(rows, confidence=0.95)
    low, high = distributions.t.interval(0.95, 1999, loc=rows.mean(), scale=distributions.sem(rows))
    assert interval.low <= low < high <= interval.high
    assert interval.high - interval.low < 1.05 * (high - low)


def test_no_difference_at_all_is_no_certainty():
    interval = interval_of_mean(np.zeros(100), confidence=0.95, span=2.0)
    z2 = distributions.norm.ppf(0.975) ** 2
    assert interval.estimate == 0
    assert (interval.low, interval.high) == pytest.approx((-2 * z2 / (100 + z2), 2 * z2 / (100 + z2)))


def test_without_a_span_one_row_may_differ_by_one():
    spanned = interval_of_mean(np.zeros(100), confidence=0.9, span=1.0)
    assert interval_of_mean(np.zeros(100), confidence=0.9) == spanned
    assert interval_of_bootstrap(np.zeros(100), 0.0, confidence=0.9, n=100) == spanned


def test_an_interval_of_skewed_rows_reaches_no_less_far_than_students():
    rows = np.zeros(1000)
    rows[:20] = 1.0
    interval = interval_of_mean(rows, confidence=0.9)
    ends = distributions.t.interval(0.9, 999, loc=rows.mean(), scale=distributions.sem(rows))
    assert interval.low == pytest.approx(ends[0])
    assert ends[1] < interval.high < ends[1] + 0.002


def test_an_interval_carries_its_confidence():
    rows = np.linspace(0.0, 1.0, 40)
    assert interval_of_ratios(rows + 1, confidence=0.9).confidence == 0.9
    assert interval_of_mean(rows, confidence=0.9).confidence == 0.9
    assert interval_of_bootstrap(rows, 0.5, confidence=0.9, n=len(rows)).confidence == 0.9


def test_a_mean_that_rests_on_one_row_reaches_as_far_as_the_paired_proportions():
    rows = np.zeros(1000)
    rows[0] = 0.5
    interval = interval_of_mean(rows, confidence=0.95)
    assert interval.estimate == pytest.approx(0.0005)
    assert 0.0005 + smallest_provable_drop(1000, 0.95) < interval.high < 0.0056  # Tango's for one row lost whole
    assert interval.high > 0.0005 + 1.96 * rows.std() / math.sqrt(1000)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.sampled_from([0.0, 1.0, -1.0]) | st.floats(-1.0, 1.0), min_size=20, max_size=60),
    span=st.sampled_from([1.0, 3.0]),
)
def test_rows_that_were_not_seen_may_lose_the_span(rows, span):
    interval = interval_of_mean(rows, confidence=0.95, span=span)
    reach = span * smallest_provable_drop(len(rows), 0.95)

    assert interval.high >= min(span, interval.estimate + reach) - 1e-9
    assert interval.low <= max(-span, interval.estimate - reach) + 1e-9


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([0, 0, 0, 1, -1]), min_size=20, max_size=200))
def test_a_mean_of_lost_and_gained_rows_reaches_as_far_as_their_paired_proportions(rows):
    interval = interval_of_mean(rows, confidence=0.95)
    paired = interval_of_paired_proportions(n=len(rows), lost=rows.count(1), gained=rows.count(-1), confidence=0.95)

    assert interval.low <= paired.low + 1e-9
    assert interval.high >= paired.high - 1e-9


@pytest.mark.parametrize("noise", [1e-300, 1e-12, 1e-7])
@pytest.mark.parametrize("kind", ["mean", "bootstrap"])
@pytest.mark.parametrize("n", [25, 450])
def test_noise_of_rounding_is_no_proof(kind, noise, n):
    rows = np.random.default_rng(0).normal(0.0, noise, n)
    if kind == "mean":
        interval = interval_of_mean(rows, confidence=0.95)
    else:
        replicates = rows[np.random.default_rng(1).integers(0, n, (200, n))].mean(axis=1)
        interval = interval_of_bootstrap(replicates, float(rows.mean()), confidence=0.95, n=n)
    reach = smallest_provable_drop(n, 0.95)
    assert (interval.low, interval.high) == pytest.approx((-reach, reach), rel=1e-3)


@pytest.mark.parametrize("kind", ["mean", "bootstrap"])
@pytest.mark.parametrize(("n", "lost"), [(25, 0.05), (60, 0.02), (200, 0.01)])
def test_a_candidate_that_loses_few_rows_whole_rarely_passes_a_limit_that_it_misses(kind, n, lost):
    """Where no lost row is seen, which is frequent, the rest of the rows differ by noise alone."""
    rng, passed, runs = np.random.default_rng(7), 0, 200
    for _ in range(runs):
        rows = np.where(rng.random(n) < lost, 1.0, rng.normal(0.0, 1e-7, n))
        if kind == "mean":
            interval = interval_of_mean(rows, confidence=0.95)
        else:
            replicates = rows[rng.integers(0, n, (200, n))].mean(axis=1)
            interval = interval_of_bootstrap(replicates, float(rows.mean()), confidence=0.95, n=n)
        passed += interval.high < lost
    assert passed / runs <= 0.03


def test_a_span_is_positive():
    for span in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="span"):
            interval_of_mean(np.zeros(20), confidence=0.95, span=span)
        with pytest.raises(ValueError, match="span"):
            interval_of_bootstrap(np.zeros(20), 0.0, confidence=0.95, n=20, span=span)


def test_a_bootstrap_takes_percentiles_a_little_wider_for_few_units():
    replicates = np.random.default_rng(0).normal(0.0, 1.0, 20_000)
    low, high = np.quantile(replicates, (0.025, 0.975))
    few, many = (interval_of_bootstrap(replicates, 0.0, confidence=0.95, n=n) for n in (20, 100_000))
    assert few.low < low < high < few.high
    assert (many.low, many.high) == pytest.approx((low, high), abs=1e-3)
    tail = distributions.norm.sf(math.sqrt(20 / 19) * distributions.t.ppf(0.975, 19))
    assert (few.low, few.high) == pytest.approx(tuple(np.quantile(replicates, (tail, 1 - tail))), rel=1e-9)


def test_equal_replicates_are_no_certainty():
    interval = interval_of_bootstrap(np.zeros(1000), 0.0, confidence=0.95, n=300)
    assert interval.high == pytest.approx(3.8415 / 303.8415, rel=1e-4)
    assert interval.low == -interval.high


@pytest.mark.parametrize("span", [1.0, 5.0])
def test_the_variance_of_replicates_says_how_many_units_differ(span):
    """Of 300 units nine that differ by the span give the mean a standard error of 3 / 300 spans."""
    replicates = np.array([-3.0, 3.0] * 500) * span / 300
    interval = interval_of_bootstrap(replicates + 0.25, 0.25, confidence=0.95, n=300, span=span)
    few = interval_of_paired_proportions(n=300, lost=4.5, gained=4.5, confidence=0.95)
    assert (interval.low, interval.high) == pytest.approx((0.25 - span * few.high, 0.25 + span * few.high), rel=1e-9)


def test_the_estimate_lies_within_its_bootstrap_interval():
    interval = interval_of_bootstrap(np.linspace(0.0, 1.0, 100), 2.0, confidence=0.9, n=100)
    assert interval.low < interval.estimate == 2.0 <= interval.high


def test_fewer_than_20_units_make_no_interval_of_a_metric():
    with pytest.raises(ValueError, match="20 units"):
        interval_of_bootstrap(np.arange(100.0), 50.0, confidence=0.95, n=19)
    with pytest.raises(ValueError, match="20 replicates"):
        interval_of_bootstrap(np.arange(19.0), 9.0, confidence=0.95, n=100)
    with pytest.raises(ValueError, match="20 differences"):
        interval_of_mean(np.arange(19.0), confidence=0.95)
    with pytest.raises(ValueError, match="finite"):
        interval_of_mean(np.full(20, np.nan), confidence=0.95)
    with pytest.raises(ValueError, match="finite"):
        interval_of_bootstrap(np.arange(100.0), math.nan, confidence=0.95, n=100)


@pytest.mark.parametrize("confidence", [0.9999, 0.99999])
def test_an_interval_of_two_noisy_launches_has_finite_ends(confidence):
    interval = interval_of_ratios([0.1, 10.0], confidence=confidence)
    assert (interval.estimate, interval.low) == (pytest.approx(1.0), pytest.approx(0.0))
    assert math.isfinite(interval.high)
    assert not is_bounded(interval.high)
