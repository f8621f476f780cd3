"""Percentiles with intervals over launches."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.report.percentiles import list_percentiles


def make_timings(launches, *, rounds=2, calls=60, name="source", shape="batch1"):
    """Return raw timings: in launch i all calls but the slowest tenth take the i-th time, in ms."""
    draw = np.random.default_rng(0)
    each = rounds * calls
    times = [draw.permutation(np.where(np.arange(each) < each * 0.85, ms, 3 * ms)) for ms in launches]
    counts = np.full(rounds * len(launches), calls)
    key = f"confirm/{name}/{shape}"
    return {key: (np.concatenate(times) * 1e6).astype(np.int64), f"{key}/calls": counts}


def read(timings, *, rounds=2, names=("source",), shapes=("batch1",)):
    return list_percentiles(timings=timings, names=names, shapes=shapes, rounds=rounds, confidence=0.95)


def test_each_launch_is_one_sample():
    launches = [1.0, 1.2, 1.1, 1.4]
    (one,) = read(make_timings(launches))

    wanted = interval_of_ratios(launches, confidence=0.95)
    assert one.launches == 4
    assert one.fewest_calls == 120
    assert one.p50.estimate == pytest.approx(wanted.estimate)
    assert (one.p50.low, one.p50.high) == pytest.approx((wanted.low, wanted.high))
    assert one.p90.estimate == pytest.approx(3 * wanted.estimate)


def test_more_calls_in_the_same_launches_narrow_nothing():
    few, many = (read(make_timings([1.0, 1.5, 2.0], calls=calls))[0].p50 for calls in (60, 600))

    assert (few.low, few.high) == pytest.approx((many.low, many.high))


@pytest.mark.parametrize(
    ("calls", "known"), [(31, (True, False, False)), (32, (True, True, False)), (50, (True, True, True))]
)
def test_a_percentile_needs_enough_calls_in_each_launch(calls, known):
    (one,) = read(make_timings([1.0, 1.1, 1.2], calls=calls))

    assert tuple(value is not None for value in (one.p50, one.p90, one.p99)) == known


def test_two_launches_have_no_interval():
    assert read(make_timings([1.0, 1.1])) == ()


def test_rounds_that_make_no_whole_launches_are_left_out():
    """Timings of a confirmation with another number of rounds would be cut in the wrong places."""
    assert read(make_timings([1.0, 1.1, 1.2], rounds=3), rounds=2) == ()


def test_entrants_and_shapes_without_timings_are_left_out():
    timings = make_timings([1.0, 1.1, 1.2], name="a", shape="batch64")

    found = read(timings, names=("source", "a", "a"), shapes=("batch1", "batch64"))

    assert [(one.id, one.shape) for one in found] == [("a", "batch64")]
