"""The tuner on operators whose damage is known, and adds up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hone_runtime.tuning.engine import Engine
from hone_runtime.tuning.search import MARGIN, Settings
from hone_runtime.tuning.strategies import STRATEGIES
from hone_runtime.tuning.tuner import MOST_NAMES, tune

LIMIT = 0.02


class Additive(Engine[frozenset[str]]):
    """A model whose output and metric lose the damage of each operator in int8; a candidate is the set of these."""

    def __init__(self, damage, times=None, *, seconds=0.0, base=0.9, missing=()):
        self.damage = damage
        self.operators = [*damage]
        self.times = times or dict.fromkeys(damage, 1.0)
        self.seconds, self.now = seconds, 0.0
        self.base, self.missing = base, missing
        self.builds = 0

    def open_source(self):
        return frozenset()

    def build(self, excluded):
        self.builds += 1
        self.now += self.seconds
        return frozenset(self.operators) - excluded

    def run(self, candidate):
        return {"y": np.array([0.0, 1.0]) + math.sqrt(sum(self.damage[name] for name in candidate))}

    def find_class_axes(self, outputs):
        assert outputs.keys() == {"y"}
        return {}

    def measure(self, candidate):
        return {"accuracy": self.base - sum(self.damage[name] for name in candidate)}

    def measure_source(self):
        return {"accuracy": self.base}

    def time(self, candidate):
        return sum(self.times.values()) - 0.5 * sum(self.times[name] for name in candidate)

    def list_times(self):
        return {name: value for name, value in self.times.items() if name not in self.missing}


def tune_it(engine, strategy="sensitivity", **settings):
    settings = Settings(**{"limits": {"accuracy": LIMIT}, "clock": lambda: engine.now, **settings})
    return tune(engine, settings, strategy=strategy, plain="toy.int8")


def make_damage(count, guilty, rest=1e-6):
    """Return operators in a mixed order, some of which are guilty."""
    names = [f"op{n * 11 % count}" for n in range(count)]
    return {name: guilty.get(name, rest) for name in names}


def test_nothing_is_scored_if_all_operators_hold_the_limit():
    engine = Additive(make_damage(20, {}))
    found = tune_it(engine)
    assert found.notes["nothing_to_do"].startswith("toy.int8 holds the gate as it is: accuracy drops by 0.0000")
    assert (found.excluded, engine.builds) == (None, 1)


def test_a_drop_between_the_margin_and_the_limit_is_not_accepted():
    assert "nothing_to_do" in tune_it(Additive({"a": LIMIT * MARGIN * 0.99, "b": 0.0})).notes
    assert tune_it(Additive({"a": LIMIT * 0.99, "b": 0.0})).excluded == {"a"}


def test_a_drop_of_another_metric_counts_as_well():
    """The neighbours of a sentence change long before its cosine does."""

    class Neighbours(Additive):
        def measure(self, candidate):
            return super().measure(candidate) | {"neighbours": 1.0 - 0.1 * len(candidate & {"op3", "op4"})}

        def measure_source(self):
            return super().measure_source() | {"neighbours": 1.0}

    engine = Neighbours(make_damage(12, {"op3": 1e-4, "op4": 2e-4}))
    found = tune_it(engine, limits={"accuracy": LIMIT, "neighbours": 0.1})
    assert found.excluded == {"op3", "op4"}
    tuned = found.notes["metadata"]["tuned"]
    assert (tuned["metric"], tuned["limit"], tuned["others"]) == ("accuracy", LIMIT, {"neighbours": 0.1})
    assert tuned["curve"][0]["others"] == {"neighbours": pytest.approx(0.2)}
    assert tune_it(engine).notes["nothing_to_do"].endswith("accuracy drops by 0.0003 on the search split")


@pytest.mark.parametrize("gain", [math.inf, math.nan])
def test_an_infinite_gain_holds_no_limit(gain):
    class Infinite(Additive):
        def measure(self, candidate):
            return super().measure(candidate) | {"ratio": gain if "op3" in candidate else 1.0}

        def measure_source(self):
            return super().measure_source() | {"ratio": 1.0}

    found = tune_it(Infinite(make_damage(12, {})), limits={"accuracy": LIMIT, "ratio": 0.1})
    assert found.excluded >= {"op3"}


def test_a_refusal_has_every_metric_and_its_accepted_drop():
    class Broken(Additive):
        def measure(self, candidate):
            return super().measure(candidate) | {"neighbours": 1.0 - bool(candidate)}

        def measure_source(self):
            return super().measure_source() | {"neighbours": 1.0}

    reason = tune_it(Broken(make_damage(12, {})), limits={"accuracy": LIMIT, "neighbours": 0.1}).notes["refused"]
    assert reason.endswith(
        "on the search split, accuracy drops by 0.0000, where 0.01 is accepted; "
        "neighbours drops by 1.0000, where 0.05 is accepted"
    )


def test_exactly_the_guilty_operators_stay_in_fp32():
    guilty = {f"op{n}": 0.05 * k for k, n in enumerate((3, 11, 30, 44, 48), 1)}
    found = tune_it(Additive(make_damage(49, guilty)))
    tuned = found.notes["metadata"]["tuned"]
    assert found.excluded == set(guilty) == set(tuned["excluded"])
    assert (tuned["int8"], tuned["operators"], tuned["scored"]) == (44, 49, 49)
    assert tuned["evaluations"] <= 8
    assert len(tuned["curve"]) == tuned["evaluations"]
    assert tuned["curve"][0] == {"share": 1, "drop": pytest.approx(0.75, rel=0.01), "others": {}, "time": 0.5}


def test_the_budget_alone_finds_the_set_if_the_drop_grows_linearly():
    """The first trial is right, and the next ones only prove that no further operator fits."""
    engine = Additive(make_damage(49, {"op1": 0.3, "op2": 0.2}))
    curve = tune_it(engine).notes["metadata"]["tuned"]["curve"]
    assert curve[1]["share"] == pytest.approx(47 / 49)


def test_a_slow_operator_with_damage_gives_way_to_a_fast_harmless_one():
    """By divergence for time ``slow`` comes first, and a beginning of the order would end before ``fast``."""
    engine = Additive({"slow": 0.5, "fast": 0.004, "other": 0.0}, {"slow": 1000.0, "fast": 1.0, "other": 1.0})
    assert tune_it(engine).excluded == {"slow"}


def test_of_equal_damage_the_operators_with_the_larger_time_are_quantized():
    engine = Additive(dict.fromkeys("abcd", 0.004), {"a": 1.0, "b": 4.0, "c": 2.0, "d": 3.0})
    assert tune_it(engine).excluded == {"a", "c"}


def test_ties_are_decided_by_the_order_of_the_graph():
    assert tune_it(Additive(dict.fromkeys("dcba", 0.004))).excluded == {"b", "a"}


def test_an_operator_without_a_time_gets_the_median():
    engine = Additive({"a": 0.004, "b": 0.004, "c": 0.02}, {"a": 5.0, "b": 9.0, "c": 0.1}, missing={"a", "b", "c"})
    assert tune_it(engine).excluded == {"c"}


def test_a_score_that_is_not_a_number_keeps_the_operator_in_fp32():
    class Broken(Additive):
        def run(self, candidate):
            return {"y": np.array([0.0, np.nan])} if candidate == {"b"} else super().run(candidate)

        def open_source(self):
            return frozenset()

    assert tune_it(Broken({"a": 0.0, "b": 0.3, "c": 0.0})).excluded == {"b"}


def test_a_metric_that_is_not_a_number_does_not_hold():
    class Undefined(Additive):
        def measure(self, candidate):
            return {"accuracy": math.nan} if "b" in candidate else super().measure(candidate)

    found = tune_it(Undefined({"a": 0.0, "b": 0.3, "c": 0.0}))
    assert found.excluded == {"b"}
    assert found.notes["metadata"]["tuned"]["curve"][0]["drop"] is None
    assert "not a number" in tune_it(Additive({"a": 0.0}, base=math.nan)).notes["refused"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_where_nothing_helps_it_is_refused_with_the_figures(strategy):
    found = tune_it(Additive(dict.fromkeys("abc", 0.5)), strategy)
    assert found.excluded is None
    assert "at most 0 of 3 operators hold the limit" in found.notes["refused"]
    assert "accuracy drops by 1.5000" in found.notes["refused"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_operator_is_refused_or_left_alone(strategy):
    assert "at most 0 of 1" in tune_it(Additive({"a": 0.5}), strategy).notes["refused"]
    assert "nothing_to_do" in tune_it(Additive({"a": 0.0}), strategy).notes


def test_too_few_operators_are_not_worth_a_candidate():
    damage = {f"bad{n}": 0.5 for n in range(20)} | {"good": 0.0}
    assert "at most 1 of 21 operators hold the limit" in tune_it(Additive(damage)).notes["refused"]


def test_no_operator_is_nothing_to_do():
    assert "nothing_to_do" in tune_it(Additive({})).notes


@pytest.mark.parametrize("strategy", ["sensitivity", "basic"])
def test_the_number_of_evaluations_is_a_limit(strategy):
    damage = {f"op{n}": 0.001 * (n + 1) for n in range(100)}
    found = tune_it(Additive(damage), strategy, evaluations=4)
    notes = found.notes.get("metadata", {}).get("tuned", {"curve": [None] * 4})
    assert len(notes["curve"]) <= 4
    if strategy == "basic":
        assert "in 4 evaluations (basic)" in found.notes["refused"]


def test_the_best_so_far_stands_at_the_time_limit():
    """Each build takes a second: one for all, five for the scores, and some evaluations until 90 % of the time."""
    damage = {f"op{n}": 0.004 * (n + 1) for n in range(5)}
    engine = Additive(damage, seconds=1.0)
    full = tune_it(Additive(damage))
    early = tune_it(engine, seconds=10.0)
    assert engine.now <= 9
    assert early.excluded >= full.excluded
    assert early.notes["metadata"]["tuned"]["evaluations"] <= 4


def test_operators_that_were_not_scored_in_time_stay_in_fp32():
    damage = {f"op{n}": 0.0 for n in range(40)} | {"bad": 0.5}
    engine = Additive(damage, seconds=1.0)
    found = tune_it(engine, seconds=40.0)
    tuned = found.notes["metadata"]["tuned"]
    assert tuned["scored"] < 41
    assert "bad" in found.excluded
    assert tuned["int8"] == tuned["scored"]


def test_basic_returns_the_worst_operators_one_by_one():
    damage = make_damage(30, {"op3": 0.3, "op4": 0.2, "op5": 0.1})
    found = tune_it(Additive(damage), "basic")
    assert found.excluded == {"op3", "op4", "op5"}
    assert found.notes["metadata"]["tuned"]["evaluations"] == 4


def test_exhaustive_finds_the_largest_saving_without_scores():
    engine = Additive({"a": 0.5, "b": 0.008, "c": 0.008}, {"a": 9.0, "b": 1.0, "c": 2.0})
    found = tune_it(engine, "exhaustive")
    assert found.excluded == {"a", "b"}
    assert found.notes["metadata"]["tuned"]["scored"] == 0


def test_exhaustive_is_refused_for_many_operators():
    found = tune_it(Additive(dict.fromkeys("abcde", 0.5)), "exhaustive")
    assert "2^5 - 1 evaluations for 5 operators, and 15 are allowed" in found.notes["refused"]


def test_the_list_of_names_is_bounded():
    damage = {f"op{n}": 0.5 if n < 150 else 0.0 for n in range(300)}
    found = tune_it(Additive(damage))
    assert len(found.excluded) == 150
    assert len(found.notes["metadata"]["tuned"]["excluded"]) == MOST_NAMES
