from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.core.stats.levels import correct_for_looks
from kedro_hone.core.stats.plan import LOOKS, LaunchPlan, next_step
from kedro_hone.core.stats.speed import Faster

PLAN = LaunchPlan(finalists=1)


def draw(n: int, *, gain: float = 1.0, spread: float = 0.01, seed: int = 0) -> dict[str, np.ndarray]:
    return {"batch1": np.random.default_rng(seed).lognormal(0, spread, n) * gain}


def test_before_the_first_look_nothing_is_decided():
    for n in (0, 1, 2, 6):
        step = next_step(PLAN, control=draw(n, seed=1), finalists={"x": draw(n, gain=9, seed=2)})
        assert (step.launches, step.undecided) == (7 - n, ("x",))
        assert step.findings["x"].verdict is Faster.UNDECIDED
        assert (step.findings["x"].deciding is None) == (n < 2)


@pytest.mark.parametrize(("gain", "verdict"), [(2.0, Faster.YES), (0.5, Faster.NO), (1.0, Faster.NO)])
def test_a_clear_candidate_is_decided_at_seven_launches(gain, verdict):
    step = next_step(PLAN, control=draw(7, seed=1), finalists={"x": draw(7, gain=gain, seed=2)})
    assert (step.launches, step.undecided, step.findings["x"].verdict) == (0, (), verdict)
    assert step.findings["x"].launches == 7


def test_the_undecided_are_launched_until_twenty():
    noisy = {"spread": 0.42}  # of a ratio: 30 % on either side
    for n, missing in ((7, 3), (8, 2), (10, 3), (13, 3), (16, 4), (19, 1), (20, 0)):
        step = next_step(
            LaunchPlan(finalists=2, threshold=1.2),
            control=draw(n, seed=1, **noisy),
            finalists={"x": draw(n, gain=1.6, seed=2, **noisy), "fast": draw(7, gain=20, seed=3, **noisy)},
        )
        assert step.findings["x"].verdict is Faster.UNDECIDED
        assert step.findings["fast"].verdict is Faster.YES
        assert (step.launches, step.undecided) == (missing, ("x",) if missing else ())


def test_the_intervals_are_wider_than_their_confidence_alone():
    finalist = draw(7, gain=2, seed=2)
    plan = LaunchPlan(finalists=3)
    ratio = next_step(plan, control=draw(7, seed=1), finalists={"x": finalist}).findings["x"].deciding.ratio
    bare = interval_of_ratios(finalist["batch1"], confidence=correct_for_looks(1 - 0.05 / 3, looks=5))
    assert (ratio.low, ratio.high, ratio.confidence) == (bare.low, bare.high, 0.95)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.8, 2.0), st.sampled_from([0.02, 0.1, 0.3]))
def test_a_verdict_stands_and_looking_after_each_launch_changes_nothing(seed, gain, spread):
    control, finalist = (draw(20, spread=spread, seed=2 * seed + i)["batch1"] for i in range(2))
    finalist = finalist * gain

    def look(n: int):
        cut = [{"batch1": ratios[:n]} for ratios in (control, finalist)]
        return next_step(PLAN, control=cut[0], finalists={"x": cut[1]})

    n = 0
    while (step := look(n)).launches:
        n += step.launches
    assert n in LOOKS
    assert step.findings["x"].launches == n
    for more in range(n, 21):
        assert look(more) == step
    stopped = next_step(PLAN, control={"batch1": control}, finalists={"x": {"batch1": finalist[:n]}})
    assert stopped == step


def test_with_several_shapes_all_must_be_faster():
    def shapes(one: float, eight: float, seed: int):
        return {
            "batch1": draw(7, gain=one, seed=seed)["batch1"],
            "batch8": draw(7, gain=eight, seed=seed + 50)["batch1"],
        }

    finalists = {"both": shapes(3, 2, 2), "one": shapes(3, 0.5, 3)}
    measured = {"control": shapes(1, 1, 1), "finalists": finalists}
    worst = next_step(LaunchPlan(finalists=2), **measured).findings
    assert (worst["both"].verdict, worst["both"].deciding.shape) == (Faster.YES, "batch8")
    assert (worst["one"].verdict, worst["one"].deciding.shape) == (Faster.NO, "batch8")
    assert [speedup.shape for speedup in worst["one"].speedups] == ["batch1", "batch8"]
    first = next_step(LaunchPlan(finalists=2, objective="batch1"), **measured).findings
    assert (first["one"].verdict, first["one"].deciding.shape) == (Faster.YES, "batch1")
    mean = next_step(LaunchPlan(finalists=2, objective="mean"), **measured).findings
    assert (mean["one"].verdict, mean["one"].deciding.shape) == (Faster.YES, "mean")
    assert mean["one"].deciding.ratio.estimate == pytest.approx(1.5**0.5, rel=0.02)
    counted = next_step(LaunchPlan(finalists=2, shapes=("batch1",)), **measured).findings
    assert (counted["one"].verdict, counted["one"].deciding.shape) == (Faster.YES, "batch1")
    assert [speedup.shape for speedup in counted["one"].speedups] == ["batch1", "batch8"]
    weights = {"batch1": 0.0, "batch8": 1.0}
    heavy = next_step(LaunchPlan(finalists=2, objective="mean", weights=weights), **measured).findings
    assert heavy["one"].verdict is Faster.NO
    with pytest.raises(ValueError, match="objective"):
        next_step(LaunchPlan(finalists=2, objective="batch64"), **measured)
    with pytest.raises(ValueError, match="shapes"):
        next_step(LaunchPlan(finalists=2), **{**measured, "control": draw(7)})


def test_of_the_shapes_the_one_with_the_least_left_over_its_noise_decides():
    control = {"noisy": draw(7, spread=0.2, seed=1)["batch1"], "calm": draw(7, seed=2)["batch1"]}
    finalist = {"noisy": draw(7, gain=2.0, seed=3)["batch1"], "calm": draw(7, gain=1.9, seed=4)["batch1"]}
    deciding = next_step(PLAN, control=control, finalists={"x": finalist}).findings["x"].deciding
    assert deciding.shape == "noisy"
    assert deciding.noise_floor > 1.1


@pytest.mark.parametrize(
    ("looks", "reason"),
    [
        *((looks, "looks ascend and begin with two launches at least") for looks in [(), (1, 7), (7, 7), (10, 7)]),
        *((looks, "looks that are further and further apart") for looks in [(2, 10, 100), (7, 10, 14, 20)]),
    ],
)
def test_looks_that_the_level_is_not_corrected_for_are_refused(looks, reason):
    with pytest.raises(ValidationError, match=f"Value error, {reason}"):
        LaunchPlan(finalists=1, looks=looks)


@pytest.mark.parametrize("looks", [(2,), (2, 3), (5, 10)])
def test_looks_of_ones_own_are_taken(looks):
    plan = LaunchPlan(finalists=1, looks=looks)
    assert plan.looks == looks
    assert plan.level == correct_for_looks(0.95, looks=len(looks))


def test_a_step_survives_json():
    step = next_step(PLAN, control=draw(7, seed=1), finalists={"x": draw(7, gain=2, seed=2)})
    assert type(step).model_validate_json(step.model_dump_json()) == step
