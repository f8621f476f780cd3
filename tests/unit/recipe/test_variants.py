"""Options of which the recipe lists several values: each is a route."""

from __future__ import annotations

import re

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.recipe.variants import MOST_VARIANTS

STATIC, WEIGHTS = "onnxruntime.int8-static", "onnxruntime.int4-weights"


def plan(adaptors, **keys):
    adaptors = {name: {"options": options} for name, options in adaptors.items()}
    return make_plan(read_recipe({"model": {"uri": "m"}, "toolchains": ["onnxruntime"], "adaptors": adaptors, **keys}))


def read_values(found, option, adaptor=STATIC):
    return [variant.options.model_dump()[option] for variant in found.variants[adaptor]]


def test_each_value_is_a_route_whose_name_shows_it():
    found = plan({STATIC: {"activations": ["uint8", "int8"], "per_channel": False}})
    names = [step.namespace for step in found.routes.ends if STATIC in step.route]
    assert names == [
        "onnx.onnxruntime_int8_static+activations=uint8.onnxruntime_session",
        "onnx.onnxruntime_int8_static+activations=int8.onnxruntime_session",
    ]
    ends = {step.namespace: step for step in found.routes.ends}
    assert [ends[name].chosen for name in names] == [{STATIC: {"activations": value}} for value in ("uint8", "int8")]
    assert read_values(found, "activations") == ["uint8", "int8"]
    assert read_values(found, "per_channel") == [False, False]
    assert all(re.fullmatch(r"[A-Za-z0-9_.+=-]+", name) for name in names), "a file, a word of a shell, a fragment"


def test_the_steps_of_a_route_have_the_options_of_its_name():
    found = plan({STATIC: {"activations": ["uint8", "int8"]}})
    steps = {step.namespace: step for step in found.routes.steps}
    for value in ("uint8", "int8"):
        step = steps[f"onnx.onnxruntime_int8_static+activations={value}"]
        assert step.options.model_dump()["activations"] == value
        assert steps[f"{step.namespace}.onnxruntime_session"].parent == step.namespace


def test_a_list_that_the_option_takes_is_one_value():
    found = plan({STATIC: {"operators": ["Conv", "MatMul"]}})
    assert read_values(found, "operators") == [("Conv", "MatMul")]
    assert found.variants[STATIC][0].label == ""


def test_a_list_of_lists_is_several():
    found = plan({STATIC: {"operators": [["Conv"], ["Conv", "MatMul"]]}})
    assert read_values(found, "operators") == [("Conv",), ("Conv", "MatMul")]
    assert [one.label for one in found.variants[STATIC]] == ["+operators=Conv", "+operators=Conv-MatMul"]


def test_lists_of_several_options_are_combined_and_each_combination_is_there_once():
    found = plan({STATIC: {"activations": ["int8", "uint8", "int8"], "calibration": ["minmax", "entropy"]}})
    assert len(found.variants[STATIC]) == 4
    assert len({one.label for one in found.variants[STATIC]}) == 4


def test_values_that_look_alike_in_a_name_have_numbers():
    found = plan({STATIC: {"exclude": [["/a"], ["a/"]]}})
    assert [one.label for one in found.variants[STATIC]] == ["+exclude=-a", "+exclude=a-"]
    found = plan({STATIC: {"exclude": [["/a"], [":a"]]}})
    assert [one.label for one in found.variants[STATIC]] == ["+exclude=-a-1", "+exclude=-a-2"]


def explain(adaptors, **keys):
    with pytest.raises(HoneError) as caught:
        plan(adaptors, **keys)
    assert caught.value.slug == "recipe-invalid"
    return str(caught.value)


def test_a_bad_value_in_a_list_is_named():
    assert f"hone.adaptors.{STATIC}.options.activations: " in explain({STATIC: {"activations": ["uint8", "int9"]}})
    assert f"hone.adaptors.{STATIC}.options.activations: " in explain({STATIC: {"activations": []}})


def test_too_many_combinations_are_counted_before_they_are_made():
    listed = {"block_size": [16] * 1000, "symmetric": [True, False] * 1000, "accuracy_level": [0, 1, 2, 4] * 1000}
    said = explain({WEIGHTS: listed})
    assert "the lists of block_size, symmetric, accuracy_level have 8,000,000,000 combinations" in said
    assert f"{MOST_VARIANTS} are the most" in said


def test_what_converts_the_model_for_all_routes_takes_one_value():
    said = explain({"pytorch.onnx": {"opset": [18, 20]}}, toolchains=["onnxruntime", "pytorch"])
    assert "hone.adaptors.pytorch.onnx.options: opset has several" in said


def test_too_many_routes_are_an_error(monkeypatch):
    monkeypatch.setattr("kedro_hone.recipe.variants.MOST_STEPS", 50)
    listed = {STATIC: {"exclude": [[f"n{number}"] for number in range(MOST_VARIANTS)]}}
    assert len(plan(listed).routes.ends) >= MOST_VARIANTS
    listed |= {"onnxruntime.session": {"fixed_shapes": [True, False]}}
    assert "make more than 50 steps" in explain(listed)
