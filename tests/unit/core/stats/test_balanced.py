"""The interval of a balanced accuracy: its coverage with a rare class, and what few rows of a class can prove."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedro_hone.core.stats.balanced import (
    Stratum,
    interval_of_balanced_accuracy,
    needed_balanced_rows,
    smallest_provable_balanced_drop,
)
from kedro_hone.core.stats.intervals import interval_of_paired_proportions, smallest_provable_drop

SIMULATIONS = 400


@pytest.fixture
def random():
    return np.random.default_rng(11)


@cache
def make(strata, confidence=0.95):
    return interval_of_balanced_accuracy(
        [Stratum(n=n, lost=lost, gained=gained) for n, lost, gained in strata], confidence=confidence
    )


def test_of_one_class_it_is_the_interval_of_paired_proportions():
    one = interval_of_paired_proportions(n=300, lost=12, gained=5, confidence=0.95)
    interval = make(((300, 12, 5),))
    assert (interval.low, interval.estimate, interval.high) == pytest.approx((one.low, one.estimate, one.high))


def test_each_class_counts_the_same():
    interval = make(((3492, 0, 0), (108, 20, 0)))
    assert interval.estimate == pytest.approx(20 / 108 / 2)
    assert interval.low > 0.05


def test_a_rare_class_without_a_loss_proves_as_little_as_its_rows():
    sizes = (3492, 108)
    rare = smallest_provable_drop(108, 0.95) / 2
    assert rare < smallest_provable_balanced_drop(sizes, 0.95) < 1.01 * rare
    assert smallest_provable_balanced_drop(sizes, 0.95) > 15 * smallest_provable_drop(sum(sizes), 0.95)


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_it_mirrors_and_contains_its_estimate(counts):
    strata = tuple((n, min(lost, n), min(gained, n - min(lost, n))) for n, lost, gained in counts)
    interval = make(strata)
    other = make(tuple((n, gained, lost) for n, lost, gained in strata))
    assert interval.low <= interval.estimate <= interval.high
    assert (other.low, other.high) == pytest.approx((-interval.high, -interval.low))


@pytest.mark.parametrize(
    ("sizes", "losses", "gains"),
    [
        ((3492, 108), (0.0, 0.05), (0.0, 0.0)),  # only the rare class loses, rarely: the score interval's hardest case
        ((3492, 108), (0.001, 0.2), (0.004, 0.02)),
        ((3492, 108), (0.0, 0.6), (0.02, 0.0)),  # a constant candidate: every hit is lost, every false alarm gained
        ((108, 108), (0.03, 0.03), (0.0, 0.0)),
        ((500, 60, 60, 60), (0.0, 0.04, 0.04, 0.04), (0.01, 0.0, 0.0, 0.02)),
        ((900, 40), (0.3, 0.3), (0.3, 0.3)),
    ],
)
def test_the_upper_end_is_below_the_true_drop_no_more_often_than_allowed(random, sizes, losses, gains):
    drop, missed = np.mean(np.subtract(losses, gains)), 0
    for _ in range(SIMULATIONS):
        drawn = [
            random.multinomial(n, (lost, gained, 1 - lost - gained))
            for n, lost, gained in zip(sizes, losses, gains, strict=True)
        ]
        strata = tuple((n, int(row[0]), int(row[1])) for n, row in zip(sizes, drawn, strict=True))
        missed += make(strata).high < drop
    assert missed / SIMULATIONS <= 0.025 + 2.5 * np.sqrt(0.025 * 0.975 / SIMULATIONS)


@pytest.mark.parametrize("recall", [0.9, 0.5, 0.2])
def test_a_constant_candidate_is_never_proved(random, recall):
    for _ in range(50):
        hits, alarms = random.binomial(108, recall), random.binomial(3492, 0.017)
        interval = make(((3492, 0, int(alarms)), (108, int(hits), 0)), 0.983)
        limit = smallest_provable_balanced_drop((3492, 108), 0.983)
        assert interval.high > 1.5 * limit


@pytest.mark.parametrize("shares", [(0.97, 0.03), (0.5, 0.5), (0.6, 0.2, 0.15, 0.05)])
def test_the_needed_rows_are_the_fewest(shares):
    rows = needed_balanced_rows(shares, 0.02, 0.95)

    def prove(rows):
        return smallest_provable_balanced_drop([max(1, int(share * rows)) for share in shares], 0.95)

    assert prove(rows) < 0.02 <= prove(rows - 1)


def test_nothing_is_proved_without_classes():
    with pytest.raises(ValueError, match="one class"):
        interval_of_balanced_accuracy([], confidence=0.95)
    with pytest.raises(ValueError, match="shares"):
        needed_balanced_rows([0.5, 0.0], 0.01, 0.95)
