"""Clients of a shape, and the objectives over shapes with one client and with several."""

from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.recipe.schema import read_recipe

BOTH = {"one": {"batch": 1}, "bulk": {"batch": 64, "clients": 4}}


def read(**settings):
    return read_recipe({"model": {"uri": "models:/digits/1"}, **settings})


def test_clients_are_no_size():
    recipe = read(shapes=BOTH)

    assert recipe.clients == {"one": 1, "bulk": 4}
    assert recipe.sizes == {"one": {"batch": 1}, "bulk": {"batch": 64}}
    assert [(shape.name, shape.sizes) for shape in recipe.all_shapes] == [*recipe.sizes.items()]


def test_one_client_is_the_default_and_the_same_recipe():
    plain, named = read(shapes={"one": {"batch": 1}}), read(shapes={"one": {"batch": 1, "clients": 1}})

    assert plain == named
    assert plain.digest == named.digest


def test_a_recipe_without_clients_is_written_as_before():
    dumped = read().model_dump(mode="json")

    assert dumped["shapes"] == {"batch1": {"batch": 1}}
    assert "latency_budget_ms" not in dumped["race"]
    assert "latency_p99_ms" not in dumped["gates"]
    assert read(**{key: dumped[key] for key in ("shapes", "race", "gates")}) == read()


@pytest.mark.parametrize(
    ("race", "goal"),
    [
        ({}, ("worst", ("one", "bulk"))),
        ({"objective": "throughput"}, ("worst", ("bulk",))),
        ({"objective": "latency"}, ("worst", ("one",))),
        ({"objective": "bulk"}, ("bulk", ("one", "bulk"))),
        ({"objective": "mean"}, ("mean", ("one", "bulk"))),
        ({"latency_budget_ms": 20}, ("worst", ("bulk",))),
        ({"latency_budget_ms": 20, "objective": "one"}, ("one", ("one", "bulk"))),
    ],
)
def test_an_objective_is_over_its_shapes(race, goal):
    assert read(shapes=BOTH, race=race).goal == goal


def test_a_shape_named_as_an_objective_is_that_shape():
    """Recipes of before this objective may have one."""
    shapes = {"latency": {"batch": 1}, "throughput": {"batch": 64}}

    assert read(shapes=shapes, race={"objective": "throughput"}).goal == ("throughput", ("latency", "throughput"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"race": {"objective": "throughput"}}, "needs a shape with several clients"),
        ({"race": {"latency_budget_ms": 20}}, "needs a shape with several clients"),
        ({"race": {"objective": "latency"}, "shapes": {"bulk": BOTH["bulk"]}}, "needs a shape with one client"),
        ({"race": {"objective": "speed"}}, "neither worst, mean, latency, throughput nor one of the shapes"),
        ({"shapes": {"bulk": {"batch": 64, "clients": 257}}}, "256 are the most"),
        ({"shapes": {"bulk": {"batch": 64, "clients": 0}}}, "greater than or equal to 1"),
        ({"shapes": {"bulk": {"clients": 4}}}, "needs a batch"),
        ({"shapes": BOTH, "race": {"latency_budget_ms": 0}}, "greater than 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings, words):
    with pytest.raises(HoneError) as caught:
        read(**settings)

    assert words in str(caught.value)


def test_a_budget_of_latency_is_a_limit_at_each_shape_with_several_clients():
    recipe = read(shapes=BOTH | {"more": {"batch": 1, "clients": 16}}, race={"latency_budget_ms": 20})

    assert recipe.gates.latency_p99_ms == {}
    assert recipe.all_gates.latency_p99_ms == {"bulk": 20, "more": 20}
    assert read(shapes=BOTH).all_gates == read(shapes=BOTH).gates


@pytest.mark.parametrize(("bulk", "expected"), [(5, 5), (50, 20)])
def test_the_smaller_of_a_shapes_limit_and_the_budget_counts(bulk, expected):
    gates = {"latency_p99_ms": {"bulk": bulk, "one": 100}}
    recipe = read(shapes=BOTH, race={"latency_budget_ms": 20}, gates=gates)

    assert recipe.all_gates.latency_p99_ms == {"bulk": expected, "one": 100}
