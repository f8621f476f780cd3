from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import model_validator
from toolchains.toy import adaptor as toy

from hone_runtime.contract.adaptor import Place
from hone_runtime.contract.catalogue import forget_registrations, read_catalogue, register
from hone_runtime.contract.toolchain import Licence
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Stage
from kedro_hone.recipe.plan import list_idle, make_plan
from kedro_hone.recipe.schema import read_recipe


def plan(**settings):
    return make_plan(read_recipe({"model": {"uri": "models:/digits/1"}, **settings}))


def toolchains_of(found):
    return {read_catalogue().adaptors[name].toolchain.name for name in found.options}


def test_by_default_only_default_toolchains_take_part():
    assert toolchains_of(plan()) == {"onnxruntime", "openvino", "pytorch", "sklearn", "tensorflow", "litert"}


def test_all_means_all():
    assert toolchains_of(plan(toolchains="all")) == read_catalogue().toolchains.keys() - {"composite"}


def test_an_evaluation_licence_must_be_named():
    catalogue = read_catalogue()
    barred = {name for name, chain in catalogue.toolchains.items() if chain.licence is Licence.EVALUATION}

    assert barred
    assert not barred & toolchains_of(plan())
    assert toolchains_of(plan(toolchains=["onnxruntime", *barred])) == {"onnxruntime", *barred}


def test_one_adaptor_can_be_switched_off_and_on():
    names = plan(adaptors={"onnxruntime.int8-static": {"enabled": False}}).options
    more = plan(adaptors={"iree.cpu": {"enabled": True}}).options

    assert "onnxruntime.int8-static" not in names
    assert "onnxruntime.session" in names
    assert "iree.cpu" in more


def test_an_adaptor_that_is_off_by_default_is_selected_by_its_options():
    def find(**section):
        return plan(toolchains=["pytorch", "compress"], adaptors={"compress.distil": section}).options

    student = {"student": "students.py:Small"}
    assert "compress.distil" in find(options=student)
    assert "compress.distil" not in find()
    assert "compress.distil" not in find(options=student, enabled=False)


def test_options_reach_their_adaptor():
    options = plan(adaptors={"onnxruntime.int8-static": {"options": {"per_channel": False}}}).options

    assert options["onnxruntime.int8-static"].model_dump()["per_channel"] is False


@pytest.mark.parametrize(
    ("settings", "slug", "word"),
    [
        ({"adaptors": {"onnxruntime.int8-statik": {}}}, "adaptor-unknown", "onnxruntime.int8-static"),
        ({"toolchains": ["openvno"]}, "toolchain-unknown", "openvino"),
        ({"routes": [["onnx.nothing"]]}, "adaptor-unknown", "onnx.nothing"),
        ({"adaptors": {"onnxruntime.int8-static": {"options": {"per_chanel": 1}}}}, "recipe-invalid", "per_channel"),
    ],
)
def test_what_does_not_exist_is_named(settings, slug, word):
    with pytest.raises(HoneError) as caught:
        plan(**settings)

    assert caught.value.slug == slug
    assert word in str(caught.value)


def test_the_same_recipe_gives_the_same_routes():
    first, second = plan().routes, plan().routes

    assert [step.namespace for step in first.steps] == [step.namespace for step in second.steps]
    assert len(first.ends) >= 15


@pytest.mark.parametrize(
    ("toolchains", "source", "idle"),
    [
        (["onnxruntime", "compress"], "onnx", ("compress",)),
        (["onnxruntime", "compress"], "pytorch", ("onnxruntime", "compress")),
        (["onnxruntime", "compress", "pytorch"], "pytorch", ()),
        (["onnxruntime", "openvino"], "onnx", ()),
        (["onnxruntime", "sklearn"], "onnx", ("sklearn",)),
        (["onnxruntime", "sklearn"], "sklearn", ()),
        ("default", "onnx", ()),
    ],
)
def test_a_named_toolchain_without_a_route_is_listed(toolchains, source, idle):
    recipe = read_recipe({"model": {"uri": "models:/digits/1"}, "toolchains": toolchains})
    assert list_idle(recipe, make_plan(recipe), source) == idle


def test_a_chain_of_two_compressors_is_made_only_when_named():
    chain = ["onnxruntime.int8-dynamic", "onnxruntime.int8-static"]
    single = {step.route for step in plan().routes.ends}
    chained = {step.route for step in plan(routes=[chain]).routes.ends}

    assert not any(set(chain) <= set(route) for route in single)
    assert (*chain, "onnxruntime.session") in chained


@pytest.mark.parametrize("error", [SystemExit(0), RuntimeError("no")])
def test_options_that_cannot_be_read_name_their_adaptor(error):
    class Broken(toy.CompileOptions):
        @model_validator(mode="after")
        def _end(self):
            if self.slow != 0.5:  # the defaults must be valid
                raise error
            return self

    register(replace(toy.COMPILE, options=Broken))
    try:
        with pytest.raises(HoneError) as caught:
            plan(adaptors={"toy.compile": {"enabled": True, "options": {"slow": 2}}})
    finally:
        forget_registrations()
    assert caught.value.slug == "recipe-invalid"
    assert caught.value.what == "The options of the adaptor toy.compile cannot be read."
    assert f"{type(error).__name__}: {error}" in caught.value.why


def test_int8_weights_are_computed_in_bf16_by_default():
    """The best candidate for a sentence encoder on a CPU with VNNI and BF16, together with static int8."""
    routes = {step.route for step in plan().routes.ends}
    assert ("openvino.ir", "openvino.int8-weights", "openvino.bf16") in routes
    assert ("openvino.ir", "openvino.int8-ptq", "openvino.bf16") in routes
    assert ("onnxruntime.int8-fused", "onnxruntime.session") in routes
    assert not any("onnxruntime.fused" in route for route in routes)


def test_fused_attention_in_fp32_takes_part_where_it_is_asked_for():
    routes = {step.route for step in plan(routes=[["onnxruntime.fused", "onnxruntime.int8-dynamic"]]).routes.ends}
    assert ("onnxruntime.fused", "onnxruntime.session") in routes
    assert ("onnxruntime.fused", "onnxruntime.int8-dynamic", "onnxruntime.session") in routes


def test_the_levers_of_throughput_are_candidates_only_where_several_clients_call():
    plain = plan(shapes={"bulk": {"batch": 64}})
    several = plan(shapes={"one": {"batch": 1}, "bulk": {"batch": 64, "clients": 4}})
    streams = {
        name: [variant.label for variant in variants]
        for name, variants in several.variants.items()
        if len(variants) > 1
    }

    assert not any(variant.label for variants in plain.variants.values() for variant in variants)
    assert {name: streams[name] for name in ("openvino.f32", "onnxruntime.session", "litert.xnnpack")} == {
        "openvino.f32": ["", "+streams=auto", "+streams=4"],
        "onnxruntime.session": ["", "+streams=4"],
        "litert.xnnpack": ["", "+streams=4"],
    }
    ends = {step.namespace for step in plain.routes.ends}
    assert ends < {step.namespace for step in several.routes.ends}, "today's candidates keep their names"


def test_options_of_a_plain_candidate_are_written_as_before():
    options = plan(shapes={"bulk": {"batch": 64, "clients": 4}}).options

    assert options["onnxruntime.session"].model_dump(mode="json") == {"optimization": "all", "fixed_shapes": True}
    assert options["litert.xnnpack"].model_dump(mode="json") == {}


def test_streams_of_the_recipe_replace_those_of_the_adaptor():
    own = {"adaptors": {"openvino.f32": {"options": {"streams": [2, 8]}}}}
    found = plan(shapes={"bulk": {"batch": 64, "clients": 4}}, **own).variants["openvino.f32"]

    assert [variant.label for variant in found] == ["+streams=2", "+streams=8"]


COMPRESSED = ["pytorch", "onnxruntime", "openvino", "compress"]


def list_chains(**settings):
    """Return the compressors of each candidate, in their order."""
    known = read_catalogue().adaptors
    ends = plan(toolchains=COMPRESSED, **settings).routes.ends
    return {tuple(name for name in step.route if known[name].stage is Stage.COMPRESS) for step in ends}


def test_a_smaller_network_is_quantized_by_itself_and_raced_in_every_precision():
    chains = list_chains()
    assert ("compress.prune-channels",) in chains
    assert ("compress.prune-channels", "onnxruntime.int8-static") in chains
    assert ("compress.replace-layers", "compress.prune-channels", "openvino.int8-ptq") in chains
    assert max(map(len, chains)) == len(Place)
    places = [[read_catalogue().adaptors[name].place for name in chain] for chain in chains if len(chain) > 1]
    assert all(chain == sorted({*chain}) for chain in places)


def test_what_has_no_place_follows_only_where_the_recipe_says_so():
    chain = ("compress.prune-channels", "compress.low-rank", "onnxruntime.int4-weights")
    assert chain not in list_chains()
    assert chain in list_chains(routes=[[*chain[:2], "pytorch.onnx", chain[2]]])


def test_strengths_are_tried_unless_the_recipe_has_others():
    def list_labels(**settings):
        steps = plan(toolchains=COMPRESSED, **settings).routes.steps
        return {step.namespace.split(".")[-1] for step in steps if step.adaptor.name == "compress.prune-channels"}

    name = "compress_prune_channels"
    assert list_labels() == {f"{name}+ratio={ratio}" for ratio in ("0-5", "0-75", "0-875")}
    options = {"compress.prune-channels": {"options": {"ratio": 0.6}}}
    assert list_labels(adaptors=options) == {name}


def test_in_a_chain_only_the_usual_strength_is_tried():
    steps = plan(toolchains=COMPRESSED).routes.steps
    labels = {step.namespace.rpartition("+")[2] for step in steps if step.route[-2:-1] == ("compress.replace-layers",)}
    assert {label for label in labels if "=" in label} == {"ratio=0-75", "share=0-5", "rank=0-25"}
