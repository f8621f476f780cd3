from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from kedro_hone.core.stats.intervals import (
    interval_of_paired_proportions,
    needed_rows,
    smallest_provable_drop,
)


@pytest.mark.parametrize(
    ("counts", "confidence", "ends"),
    [
        ((161, 6, 16), 0.95, (-0.1240, -0.0054)),  # Cavo et al. 2012, in the tests of the R package contingencytables
        ((1000, 20, 60), 0.95, (-0.0584, -0.0231)),  # the R package PropCIs, scoreci.mp
        ((618, 25, 28), 0.90, (-0.0247, 0.0148)),  # the same
    ],
)
def test_reference_values_of_tangos_interval(counts, confidence, ends):
    n, lost, gained = counts
    interval = interval_of_paired_proportions(n=n, lost=lost, gained=gained, confidence=confidence)
    assert interval.confidence == confidence
    assert interval.estimate == pytest.approx((lost - gained) / n)
    assert (interval.low, interval.high) == pytest.approx(ends, abs=5.1e-5)


COUNTS = st.integers(1, 2000).flatmap(
    lambda n: st.integers(0, n).flatmap(lambda lost: st.tuples(st.just(n), st.just(lost), st.integers(0, n - lost)))
)


@settings(max_examples=200, deadline=None)
@given(COUNTS, st.sampled_from([0.8, 0.95, 0.999]))
def test_the_interval_holds_its_estimate_and_mirrors(counts, confidence):
    n, lost, gained = counts
    interval = interval_of_paired_proportions(n=n, lost=lost, gained=gained, confidence=confidence)
    mirror = interval_of_paired_proportions(n=n, lost=gained, gained=lost, confidence=confidence)
    assert -1 <= interval.low <= interval.estimate <= interval.high <= 1
    assert interval.low < interval.high
    assert (mirror.low, mirror.high) == pytest.approx((-interval.high, -interval.low), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(COUNTS)
def test_the_ends_solve_the_score_equation(counts):
    n, lost, gained = counts
    high = interval_of_paired_proportions(n=n, lost=lost, gained=gained, confidence=0.95).high
    if high == 1:
        assert lost == n
        return
    b = -lost - gained + (2 * n - lost + gained) * high
    q = ((b**2 + 8 * n * gained * high * (1 - high)) ** 0.5 - b) / (4 * n)
    z = distributions.norm.ppf(0.975)
    assert (n * high - lost + gained) ** 2 == pytest.approx(z**2 * n * (2 * q + high * (1 - high)), rel=1e-5)


@pytest.mark.parametrize("n", [1, 10, 300, 10_000])
def test_nothing_lost_is_no_certainty(n):
    z2 = distributions.norm.ppf(0.975) ** 2
    interval = interval_of_paired_proportions(n=n, lost=0, gained=0, confidence=0.95)
    assert (interval.low, interval.estimate, interval.high) == pytest.approx((-z2 / (n + z2), 0, z2 / (n + z2)))


@pytest.mark.parametrize("n", [50, 300, 10_000])
def test_what_can_be_proved_at_best_lies_a_little_above_the_exact_bound(n):
    exact = 1 - 0.025 ** (1 / n)
    assert exact < smallest_provable_drop(n, 0.95) < 1.1 * exact


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-5, 1.5), st.sampled_from([0.9, 0.95, 0.95 + 0.1 / 3, 0.99]))
def test_the_needed_rows_are_the_fewest_that_can_prove_the_limit(limit, confidence):
    n = needed_rows(limit, confidence)
    assert smallest_provable_drop(n, confidence) < limit
    assert n == 1 or smallest_provable_drop(n - 1, confidence) >= limit


def test_a_gate_for_one_percent_needs_381_rows_and_the_source_itself_passes_it():
    assert needed_rows(0.01, 0.95) == 381
    assert interval_of_paired_proportions(n=381, lost=0, gained=0, confidence=0.95).high < 0.01
    assert smallest_provable_drop(300, 0.95) >= 0.01


def test_nothing_proves_a_limit_of_zero():
    with pytest.raises(ValueError, match="no number of rows"):
        needed_rows(0.0, 0.95)


@pytest.mark.parametrize(("n", "lost", "gained"), [(0, 0, 0), (10, -1, 0), (10, 0, -1), (10, 6, 5)])
def test_counts_that_do_not_fit_are_refused(n, lost, gained):
    with pytest.raises(ValueError, match="counts"):
        interval_of_paired_proportions(n=n, lost=lost, gained=gained, confidence=0.95)
