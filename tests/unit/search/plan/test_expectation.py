"""How long a run is expected to take: the search and the confirmation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.values.artifact import Artifact
from kedro_hone.recipe.plan import make_plan, reach_steps
from kedro_hone.recipe.prior import Usual
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.plan.expectation import TimeLimits, expect, find_limits
from kedro_hone.search.plan.forecast import STEP_SECONDS, Forecast

SOURCE = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=())


def make_recipe(**changes):
    return read_recipe({"model": {"uri": "m"}, "toolchains": ["onnxruntime"], **changes})


def make_expectation(forecast=None, **changes):
    recipe = make_recipe(**changes)
    limits = TimeLimits(search=1e6, confirmation=1e6)
    return expect(recipe, make_plan(recipe).routes, SOURCE, forecast=forecast or Forecast(), limits=limits)


@pytest.mark.parametrize(
    ("recipe", "size", "said"),
    [
        ({"budget": 60}, 1, "at most 11 min in all: 60 s to search, then 10 min to confirm"),
        ({"budget": 60, "confirm": {"seconds": 30}}, 1, "at most 90 s in all: 60 s to search, then 30 s to confirm"),
        ({"budget": "quick"}, 50 << 20, "at most 12 min in all: 2 min to search, then 10 min to confirm"),
        ({"budget": "thorough"}, 1, "no limit to search, then 60 min to confirm at most"),
    ],
)
def test_the_announced_total_has_the_search_and_the_confirmation(recipe, size, said):
    store = SimpleNamespace(measure=lambda _: size)
    assert find_limits(make_recipe(**recipe), SOURCE, store).describe() == said


def test_what_was_measured_replaces_the_guess():
    known = Forecast(adaptors={"onnxruntime.int8-static": Usual(seconds=100.0)})
    more = make_expectation(known).find_rest() - make_expectation().find_rest()
    assert more > 0
    assert make_expectation(known).steps["onnx.onnxruntime_int8_static"] == 100.0
    assert make_expectation().steps["onnx.onnxruntime_int8_static"] == STEP_SECONDS


def test_the_rest_falls_with_all_that_ends():
    one = make_expectation()
    rests = [
        one.find_rest(),
        one.find_rest(built=one.steps),
        one.find_rest(built=one.steps, validated=one.validations),
        one.find_rest(raced=1.0),
        one.find_rest(past=["race"]),
        one.find_rest(past=["race", "confirm"]),
    ]
    assert rests == sorted(rests, reverse=True)
    assert rests[-1] == 0.0


def test_no_more_than_the_budget_is_expected():
    recipe = make_recipe()
    limits = TimeLimits(search=10.0, confirmation=5.0)
    one = expect(recipe, make_plan(recipe).routes, SOURCE, forecast=Forecast(), limits=limits)
    assert one.find_rest() == 15.0
    assert one.find_rest(searched=8.0) == 7.0
    assert one.find_rest(searched=80.0) == 5.0


def test_only_steps_that_the_source_can_reach_are_expected():
    routes = make_plan(make_recipe(toolchains=["onnxruntime", "pytorch"])).routes
    reached = {step.namespace.partition(".")[0] for step in reach_steps(routes, "onnx")}
    assert reached == {"onnx"}
    assert {step.namespace.partition(".")[0] for step in reach_steps(routes, "pytorch")} >= {"onnx", "pytorch"}
