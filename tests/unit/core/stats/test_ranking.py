from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.core.stats.ranking import rank_finalists

NOISE = np.exp(np.random.default_rng(3).normal(0, 0.05, 7))
"""Of the source, in seven launches: all finalists' ratios have it."""
OWN = np.exp(np.random.default_rng(4).normal(0, 0.005, (4, 7)))


def make(batch1, batch64, own=0, n=7):
    return {"batch1": (batch1 * NOISE * OWN[own])[:n], "batch64": (batch64 * NOISE[::-1] * OWN[own + 1])[:n]}


def test_who_is_as_fast_at_the_worst_shape_and_faster_at_another_is_first():
    finalists = {"one": make(7.80, 7.92), "both": make(9.07, 7.84, own=2)}
    assert rank_finalists(finalists) == ["both", "one"]


def test_who_is_faster_at_the_worst_shape_is_first():
    finalists = {"one": make(7.8, 7.9), "other": make(20.0, 6.0, own=2)}
    assert rank_finalists(finalists) == ["one", "other"]
    assert rank_finalists(finalists, objective="mean") == ["other", "one"]
    assert rank_finalists(finalists, objective="batch1") == ["other", "one"]
    assert rank_finalists(finalists, shapes=("batch1",)) == ["other", "one"]


def test_who_is_as_fast_by_the_objective_but_at_another_shape_is_tied():
    finalists = {"one": make(2.0, 1.5), "other": make(1.49, 3.0, own=2)}
    assert rank_finalists(finalists) == ["other", "one"]


def test_those_that_are_tied_by_a_weighted_mean_are_ranked_by_it():
    finalists = {"one": make(4.0, 4.0), "other": make(3.99, 8.0, own=2)}
    weights = {"batch1": 1.0, "batch64": 1e-9}
    assert rank_finalists(finalists, objective="mean", weights=weights)[0] == "one"


def test_those_behind_the_leader_are_ranked_among_themselves():
    finalists = {
        "last": make(3.0, 3.0),
        "second": make(6.0, 5.02, own=1),
        "third": make(5.0, 5.03, own=2),
        "first": make(9.0, 9.0),
    }
    assert rank_finalists(finalists) == ["first", "second", "third", "last"]


EXACT, LOSSY = (0.0, -6.0), (0.008, -1.0)


def test_of_those_that_are_as_fast_the_one_that_loses_less_is_first():
    finalists = {"lossy": make(4.01, 4.01), "exact": make(4.0, 4.0, own=2)}
    losses = {"lossy": LOSSY, "exact": EXACT}
    assert rank_finalists(finalists) == ["lossy", "exact"]
    assert rank_finalists(finalists, losses=losses) == ["exact", "lossy"]
    assert rank_finalists(finalists, losses=dict.fromkeys(finalists, EXACT)) == ["lossy", "exact"]


def test_of_losses_the_drop_counts_before_the_error():
    finalists = {"drops": make(4.01, 4.01), "differs": make(4.0, 4.0, own=2)}
    assert rank_finalists(finalists, losses={"drops": (0.01, -7.0), "differs": (0.0, -1.0)}) == ["differs", "drops"]


@pytest.mark.parametrize("batch64", [4.4, 4.0])
def test_who_is_faster_by_the_objective_or_the_mean_is_first_whatever_it_loses(batch64):
    finalists = {"lossy": make(4.0 if batch64 > 4.0 else 4.4, 4.4), "exact": make(4.0, batch64 - 0.4, own=2)}
    assert rank_finalists(finalists, losses={"lossy": LOSSY, "exact": EXACT}) == ["lossy", "exact"]


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_launches_tie_nobody(n):
    finalists = {"slow": make(2.0, 2.0, n=n), "fast": make(4.0, 4.0, own=2, n=n)}
    assert rank_finalists(finalists, losses={"fast": LOSSY, "slow": EXACT}) == ["fast", "slow"]


@pytest.mark.parametrize("n", [1, 2])
def test_few_launches_rank_too(n):
    finalists = {"slow": make(2.0, 2.0, n=n), "fast": make(4.0, 4.0, own=2, n=n)}
    assert rank_finalists(finalists) == ["fast", "slow"]


def test_who_was_launched_less_often_is_compared_where_both_were():
    finalists = {"early": make(8.0, 8.0, n=3), "late": make(9.5, 7.98, own=2)}
    assert rank_finalists(finalists) == ["late", "early"]


def test_who_is_faster_in_the_launches_of_both_is_first_whatever_the_source_did_in_the_others():
    drift = np.r_[np.full(7, 1.3), np.full(13, 1.0)]  # the source was slow in the first launches
    own = np.exp(np.random.default_rng(5).normal(0, 0.003, (2, 20)))
    late, early = 4.2 * drift * own[0], (4.0 * drift * own[1])[:7]
    assert (late[:7] > early).all()
    assert late.mean() < early.mean()
    assert rank_finalists({"early": {"x": early}, "late": {"x": late}}) == ["late", "early"]


def test_a_noisy_third_puts_nobody_before_one_that_is_faster_for_sure():
    noisy = 4.3 * np.exp(np.random.default_rng(1).normal(0, 0.4, 7))
    finalists = {"a": {"x": noisy}, "b": {"x": 4.0 * OWN[0]}, "c": {"x": 3.3 * OWN[1]}}
    for losses in (None, {"a": LOSSY, "b": LOSSY, "c": EXACT}):
        ranked = rank_finalists(finalists, losses=losses)
        assert ranked.index("b") < ranked.index("c"), ranked


def test_launches_that_one_has_alone_decide_nothing():
    a, b = np.array([10.0, 10.2, 9.9]), np.array([10.1, 10.1, 10.1, 6.0, 6.0, 6.0, 6.0])
    assert rank_finalists({"a": {"x": a}, "b": {"x": b}}) == ["b", "a"]
    assert rank_finalists({"a": {"x": a[:2]}, "b": {"x": np.array([10.3, 10.3, 6.0])}}) == ["b", "a"]


def test_a_few_noisy_launches_make_nobody_as_fast():
    ratios = {"lossy": {"x": np.array([4.0, 4.6, 3.5])}, "exact": {"x": np.array([2.6, 2.2, 3.1])}}
    assert rank_finalists(ratios, losses={"lossy": LOSSY, "exact": EXACT}) == ["lossy", "exact"]


def test_those_that_are_equal_are_ranked_by_name():
    ratios = {"x": np.array([2.0, 2.0])}
    assert rank_finalists({"b": ratios, "a": ratios}) == ["a", "b"]


def test_nobody_is_ranked_where_there_is_none():
    assert rank_finalists({}) == []
