from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from pydantic import field_validator
from toolchains.toy.model import make_model

from kedro_hone.building.routes import describe_changes, describe_options
from kedro_hone.building.trials import Route, _list_values, change_options, find_route
from kedro_hone.core.contract.adaptor import Options
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.values.artifact import StepFacts
from kedro_hone.core.values.outcome import Candidate
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe

INT8, SESSION, EXPORT = "onnxruntime.int8-static", "onnxruntime.session", "pytorch.onnx"
NAME = "onnx.onnxruntime_int8_static.onnxruntime_session"
STATIC = read_catalogue().adaptors[INT8].options


def plan_recipe(**keys):
    return make_plan(read_recipe({"model": {"uri": "m"}, "explore": True, **keys}))


@pytest.fixture
def candidate(tmp_path):
    def make(*made):
        steps = tuple(
            StepFacts(key=name, adaptor=name, run="run", folder="steps/1", seconds=1.0, outcome="artifact")
            for name in made
        )
        artifact = make_model(tmp_path / "model").model_copy(update={"steps": steps})
        return Candidate(id=NAME, route=(INT8, SESSION), outcome=artifact)

    return make


def test_a_name_says_what_differs_and_where(candidate):
    route = Route(candidate=candidate(), chain=(EXPORT, INT8, SESSION), space=MappingProxyType({}))

    assert route.name({}) == NAME
    assert route.name({INT8: {"per_channel": False, "activations": "uint8"}}) == (
        "onnx.onnxruntime_int8_static+activations=uint8+per_channel=false.onnxruntime_session"
    )
    assert route.name({EXPORT: {"opset": 18}}) == "onnx+opset=18.onnxruntime_int8_static.onnxruntime_session"
    assert "/" not in route.name({INT8: {"exclude": ["/a b/Conv"]}})


def test_the_space_of_a_route_is_that_of_its_converters_too(candidate):
    route = find_route(candidate(EXPORT, INT8, SESSION), plan_recipe(), read_host())

    assert route is not None
    assert route.chain == (EXPORT, INT8, SESSION)
    assert route.space[INT8, "per_channel"] == (True, False)


def test_what_the_recipe_sets_is_not_explored(candidate):
    plan = plan_recipe(adaptors={INT8: {"options": {"per_channel": True}}})
    route = find_route(candidate(INT8, SESSION), plan, read_host())

    assert route is not None
    assert (INT8, "per_channel") not in route.space
    assert (INT8, "calibration") in route.space


def test_nothing_is_explored_where_the_recipe_says_so(candidate):
    plan = plan_recipe(explore=False)

    assert plan.spaces == {}
    assert find_route(candidate(INT8, SESSION), plan, read_host()) is None


def test_seven_bits_are_given_up_only_where_the_machine_asks_for_them(candidate):
    host = read_host()
    plan, both = plan_recipe(), candidate(INT8, SESSION)
    without = find_route(both, plan, replace(host, flags=frozenset({"avx2"}), machine="x86_64"))
    with_it = find_route(both, plan, replace(host, flags=frozenset({"avx2", "avx512_vnni"}), machine="x86_64"))

    assert without is not None
    assert with_it is not None
    assert without.space[INT8, "reduce_range"] == (None, False)
    assert (INT8, "reduce_range") not in with_it.space


def test_options_that_are_refused_together_are_a_reason():
    assert change_options(STATIC(), {"activations": "uint8"}) == STATIC(activations="uint8")
    refused = change_options(STATIC(), {"activations": "int2"})
    assert isinstance(refused, str)
    assert '"int2"' in refused


def test_the_memory_names_what_differs_from_the_defaults():
    assert describe_options(None) == describe_options(STATIC()) == describe_changes({}) == ""
    assert describe_options(STATIC(activations="uint8")) == '{"activations": "uint8"}'


class Odd(Options):
    """Options of a plug-in whose code raises what it likes."""

    bits: int = 8

    @field_validator("bits")
    @classmethod
    def _check(cls, bits):
        if bits == 2:
            raise KeyError(bits)
        return bits

    def resolve(self, host):
        raise OSError(host.instructions)


def test_code_of_a_plugin_that_raises_is_a_reason():
    assert "KeyError" in change_options(Odd(), {"bits": 2})
    assert _list_values(Odd(), "bits", (8, 4, 2), read_host()) == (8, 4, 2)
