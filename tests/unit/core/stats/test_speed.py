from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hone_runtime.values.measurement import Interval
from kedro_hone.core.stats.speed import (
    Faster,
    combine_shapes,
    find_dropped,
    find_noise_floor,
    is_faster,
    percentiles,
    ratio_in_launch,
)


def interval(low: float, estimate: float, high: float) -> Interval:
    return Interval(estimate=estimate, low=low, high=high)


@pytest.mark.parametrize(
    ("control", "floor"),
    [((0.9, 1.0, 1.1), 1.1), ((0.8, 0.9, 0.99), 1.1), ((1.0, 1.0, 1.0), 1.0), ((1.1, 1.2, 1.5), 1.25)],
)
def test_the_noise_floor_is_the_upper_end_over_the_estimate(control, floor):
    assert find_noise_floor(interval(*control)) == pytest.approx(floor)


@pytest.mark.parametrize(
    ("low", "high", "floor", "verdict"),
    [
        (1.05, 1.2, 1.0, Faster.YES),
        (1.05, 1.2, 1.001, Faster.UNDECIDED),
        (1.3, 1.6, 1.2, Faster.YES),
        (1.0, 1.05, 1.0, Faster.UNDECIDED),
        (1.0, 1.049, 1.0, Faster.NO),
        (0.2, 0.3, 1.0, Faster.NO),
        (1.0, 1.2, 1.15, Faster.UNDECIDED),
    ],
)
def test_three_answers(low, high, floor, verdict):
    assert is_faster(interval(low, (low + high) / 2, high), noise_floor=floor, threshold=1.05) is verdict


def test_a_threshold_below_one_lets_a_candidate_be_slower():
    """For a candidate that is chosen for its size, say."""
    verdicts = [is_faster(interval(low, low, low), noise_floor=1.0, threshold=0.9) for low in (0.89, 0.9, 1.0)]
    assert verdicts == [Faster.NO, Faster.YES, Faster.YES]


def test_impossible_floors_and_thresholds_are_refused():
    for floor, threshold in ((0.99, 1.05), (math.nan, 1.05), (1.0, 0.0)):
        with pytest.raises(ValueError, match="noise floor"):
            is_faster(interval(1.0, 1.0, 1.0), noise_floor=floor, threshold=threshold)
    with pytest.raises(ValueError, match="positive"):
        find_noise_floor(interval(0.0, 0.0, 1.0))


@pytest.mark.parametrize(
    ("n", "p90", "p99"),
    [(1, False, False), (63, False, False), (64, True, False), (661, True, False), (662, True, True)],
)
def test_percentiles_appear_only_with_samples_enough(n, p90, p99):
    found = percentiles("batch1", range(1_000_000, n * 1_000_000 + 1, 1_000_000))
    assert found.p50_ms == pytest.approx((n + 1) / 2)
    assert (found.p90_ms is not None, found.p99_ms is not None) == (p90, p99)
    assert (found.shape, found.n) == ("batch1", n)


def test_percentiles_are_in_milliseconds():
    found = percentiles("batch1", [i * 1_000_000 for i in range(1001)])
    assert (found.p50_ms, found.p90_ms, found.p99_ms) == (500, 900, 990)
    with pytest.raises(ValueError, match=r"^percentiles need one sample at least$"):
        percentiles("batch1", [])


def test_a_launch_is_the_median_of_its_rounds_ratios():
    assert ratio_in_launch([10, 10, 1000], [5, 4, 100]) == pytest.approx(2.5)
    assert ratio_in_launch([1, 9], [1, 1]) == pytest.approx(3)  # the middle of two by their logarithms


def test_a_machine_that_changes_its_speed_between_rounds_changes_no_launch():
    """Slow spells met both alike in all rounds but the last, where one ended between the two."""
    source = 8 * np.array([1.0, 2.1, 2.1, 1.0, 2.1, 1.0, 2.1])
    candidate = np.array([1.0, 2.1, 2.1, 1.0, 2.1, 1.0, 1.0])
    assert ratio_in_launch(source, candidate) == pytest.approx(8)
    assert np.median(source) / np.median(candidate) == pytest.approx(8 * 2.1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=9), st.floats(0.01, 100))
def test_swapping_inverts_a_launch_and_a_unit_changes_nothing(times, unit):
    source, candidate = np.array(times).T
    ratio = ratio_in_launch(source, candidate)
    assert ratio_in_launch(candidate, source) == pytest.approx(1 / ratio)
    assert ratio_in_launch(source * unit, candidate * unit) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("source", "candidate", "reason"),
    [
        ([], [], "rounds come in pairs, not 0 of the source and 0 of the candidate"),
        ([1], [1, 2], "rounds come in pairs, not 1 of the source and 2 of the candidate"),
        ([1], [0], "times are positive and finite"),
        ([math.nan], [1], "times are positive and finite"),
        ([1], [math.inf], "times are positive and finite"),
        ([-1], [1], "times are positive and finite"),
    ],
)
def test_rounds_that_make_no_ratio_are_refused(source, candidate, reason):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        ratio_in_launch(source, candidate)


def test_only_those_wholly_under_the_leader_are_dropped():
    racing = {
        "leader": interval(1.9, 2.0, 2.1),
        "close": interval(1.5, 1.8, 1.95),
        "touching": interval(1.5, 1.7, 1.9),
        "slow": interval(1.0, 1.1, 1.2),
        "slower": interval(0.5, 0.6, 0.7),
    }
    assert find_dropped(racing, keep=1) == {"slow", "slower"}
    assert find_dropped(racing, keep=4) == {"slower"}
    assert find_dropped(racing, keep=9) == set()
    assert find_dropped(racing, keep=0) == {"slow", "slower"}
    assert find_dropped({}, keep=1) == set()
    with pytest.raises(ValueError, match="keep"):
        find_dropped(racing, keep=-1)


def test_the_leader_alone_decides_who_is_dropped():
    racing = {"leader": interval(1.9, 2.0, 2.1), "second": interval(1.5, 1.6, 1.7), "third": interval(1.4, 1.5, 1.6)}
    assert find_dropped(racing, keep=1) == {"second", "third"}


def test_of_equal_lower_ends_the_higher_estimate_is_kept():
    leader, low, high = interval(1.9, 2.0, 2.1), interval(0.5, 0.6, 1.0), interval(0.5, 0.8, 1.0)
    assert find_dropped({"leader": leader, "a": low, "b": high}, keep=2) == {"a"}
    assert find_dropped({"leader": leader, "a": low, "b": low}, keep=2) == {"b"}


def test_a_noisy_candidate_with_a_high_estimate_drops_nobody():
    assert find_dropped({"noisy": interval(0.5, 3.0, 18.0), "steady": interval(1.0, 1.1, 1.2)}, keep=1) == set()


def test_the_worst_shape_is_taken_as_a_whole():
    ratios = {"batch1": [1.0, 2.0, 3.0], "batch8": [2.0, 2.0, 2.0]}
    assert combine_shapes(ratios, "worst").tolist() == [1.0, 2.0, 3.0]  # its geometric mean is 1.82
    assert combine_shapes(ratios, "batch8").tolist() == [2.0, 2.0, 2.0]


def test_the_worst_is_of_the_shapes_that_count():
    ratios = {"one": [1.0, 1.0], "bulk": [3.0, 3.0], "more": [2.0, 2.0]}
    assert combine_shapes(ratios, "worst", shapes=("bulk", "more")).tolist() == [2.0, 2.0]
    assert combine_shapes(ratios, "worst", shapes=("bulk",)).tolist() == [3.0, 3.0]


def test_the_mean_over_shapes_is_geometric_and_weighted():
    ratios = {"batch1": [1.0, 4.0], "batch8": [4.0, 4.0]}
    assert combine_shapes(ratios, "mean") == pytest.approx(np.array([2.0, 4.0]))
    assert combine_shapes(ratios, "mean", {"batch1": 6, "batch8": 2}) == pytest.approx(np.array([math.sqrt(2), 4.0]))


WEIGHTS = "weights are not negative and name every shape once: "


@pytest.mark.parametrize(
    ("ratios", "objective", "weights", "reason"),
    [
        ({}, "worst", None, "every shape needs ratios"),
        ({"a": [1.0], "b": []}, "worst", None, "every shape needs ratios"),
        ({"a": [1.0, -1.0]}, "worst", None, "ratios at the shape a are positive and finite"),
        ({"a": [1.0, 0.0]}, "worst", None, "ratios at the shape a are positive and finite"),
        ({"a": [1.0], "b": [1.0]}, "best", None, "the objective is worst, mean or one of a, b, not 'best'"),
        ({"a": [1.0], "b": [1.0, 2.0]}, "mean", None, "the mean over shapes needs the same number of ratios at each"),
        ({"a": [1.0]}, "mean", {"b": 1.0}, f"{WEIGHTS}a"),
        ({"a": [1.0]}, "mean", {"a": 0.0}, f"{WEIGHTS}a"),
        ({"a": [1.0], "b": [1.0]}, "mean", {"a": 2.0, "b": -1.0}, f"{WEIGHTS}a, b"),
    ],
)
def test_shapes_that_do_not_combine_are_refused(ratios, objective, weights, reason):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        combine_shapes(ratios, objective, weights)
