"""The error rates that the design promises, measured with the functions of ``benchmarks/error_rates.py``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kedro_hone.core.stats.plan import LaunchPlan

_PATH = Path(__file__).parents[4] / "benchmarks" / "error_rates.py"


@pytest.fixture(scope="module")
def rates():
    spec = importlib.util.spec_from_file_location("error_rates", _PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["error_rates"] = module
    yield spec.loader.exec_module(module) or module
    del sys.modules["error_rates"]


def test_the_source_is_hardly_ever_faster_than_itself(rates):
    """A threshold of 1 is the hardest: the truth is equal to it. Looks at 7 to 20 launches, as ``confirm`` has them."""
    found = rates.find_rates(
        LaunchPlan(finalists=1, threshold=1.0), draw=rates.draw_lognormal(0.2), gain=1.0, runs=5000, seed=11
    )
    assert found["yes"] <= 0.025
    assert found["covered"] >= 0.95


def test_three_finalists_share_the_level(rates):
    found = rates.find_rates(
        LaunchPlan(finalists=3, threshold=1.0), draw=rates.draw_lognormal(0.2), gain=1.0, runs=1000, seed=12
    )
    assert found["yes"] <= 0.025
    assert found["covered"] >= 0.95


@pytest.mark.parametrize("modes", [False, True])
def test_looking_five_times_does_not_raise_the_error_even_without_the_noise_floor(rates, modes):
    draw = rates.draw_modes if modes else rates.draw_lognormal(0.2)
    assert rates.find_bare_error(LaunchPlan(finalists=1), draw=draw, runs=5000, seed=13) <= 0.025 + 0.0044  # + 2 s.e.


@pytest.mark.parametrize("launches", [7, 20])
@pytest.mark.parametrize("modes", [False, True])
def test_the_interval_of_launches_covers(rates, launches, modes):
    draw = rates.draw_modes if modes else rates.draw_lognormal(0.2)
    assert rates.find_coverage(draw=draw, launches=launches, runs=3000, seed=14) >= 0.93


def test_power_for_ten_percent_grows_with_launches_and_falls_with_noise(rates):
    power = {
        (spread, n): rates.find_power(draw=rates.draw_lognormal(spread), launches=n, threshold=1.05, runs=500, seed=15)
        for spread in (0.01, 0.02, 0.05)
        for n in (5, 10, 20)
    }
    for spread in (0.01, 0.02, 0.05):
        assert power[spread, 5] <= power[spread, 10] <= power[spread, 20]
    for n in (5, 10, 20):
        assert power[0.05, n] <= power[0.02, n] <= power[0.01, n]
    assert power[0.02, 20] > 0.95


@pytest.mark.parametrize(("p_lost", "p_gained"), [(0.0, 0.0), (0.01, 0.01), (0.02, 0.01), (0.05, 0.02)])
def test_paired_proportions_cover_and_rarely_pass_a_limit_that_they_miss(rates, p_lost, p_gained):
    found = rates.find_paired_rates(300, p_lost=p_lost, p_gained=p_gained)
    assert found["covered"] >= 0.93
    assert found["passed"] <= 0.03


@pytest.mark.parametrize(("kind", "least"), [("mean", 0.93), ("sparse", 0.93), ("bootstrap", 0.91)])
def test_intervals_of_other_metrics_cover(rates, kind, least):
    """The bootstrap stands for the worst case here: a mean of 100 exponential, heavily skewed differences."""
    assert rates.find_metric_coverage(kind, n=100, runs=600, seed=16) >= least
