from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import click
import pytest
from kedro.config import OmegaConfigLoader
from kedro.framework.cli.utils import _split_params as split_params
from pydantic import Field

from hone_runtime.errors import HoneError
from kedro_hone.core.gates import Gate, forget_gates, register_gate
from kedro_hone.recipe.schema import Recipe, read_recipe
from kedro_hone.settings import CONFIG_LOADER_ARGS

MODEL = {"model": {"uri": "models:/digits/1"}}


def test_the_model_alone_is_a_recipe():
    recipe = read_recipe(MODEL)

    assert recipe.shapes == {"batch1": {"batch": 1}}
    assert recipe.thread_count == len(os.sched_getaffinity(0))
    assert recipe.confirm.looks[0] == 7


def test_digest_follows_the_meaning():
    same = read_recipe({**MODEL, "seed": 0})
    other = read_recipe({**MODEL, "seed": 1})

    assert read_recipe(MODEL).digest == same.digest != other.digest


@pytest.mark.attack(
    what="a name of a shape that is a path",
    who="recipe",
    stopped_by="names are letters, digits, dashes, dots and underscores",
)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shaeps": {}}, ["hone.shaeps", "did you mean 'shapes'?"]),
        ({"gates": {"dorp": 0.1}}, ["hone.gates.dorp", "did you mean 'drop'?"]),
        ({"confirm": {"finalist": 2}}, ["hone.confirm.finalist", "did you mean 'finalists'?"]),
        ({"adaptors": {"onnxruntime.session": {"option": {}}}}, ["option", "did you mean 'options'?"]),
        ({"gates": {"speedup": 0.5}}, ["hone.gates.speedup", "greater than or equal to 1"]),
        ({"shapes": {"none": {"rows": 3}}}, ["needs a batch"]),
        ({"shapes": {}}, ["hone.shapes"]),
        ({"shapes": {"../../x": {"batch": 1}}}, ["hone.shapes", "'../../x'", "letters, digits"]),
        ({"race": {"objective": "batch9"}}, ["batch9", "batch1"]),
        ({"gates": {"latency_ms": {"batch9": 1.0}}}, ["batch9"]),
        ({"model": {"uri": "models:/x/1", "module": "net.py:Net"}}, ["trust: [module]"]),
        ({"trust": ["exec"]}, ["hone.trust"]),
    ],
)
def test_a_bad_recipe_says_where_and_what(change, words):
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, **change})

    assert caught.value.slug == "recipe-invalid"
    for word in words:
        assert word in caught.value.why


def read_params(text):
    """Return the recipe that ``--params`` adds to the model."""
    given = split_params(click.Context(click.Command("run")), click.Option(["--params"]), text)
    return read_recipe({**MODEL, **given["hone"]})


def test_a_name_with_a_dot_is_given_on_the_command_line_as_the_error_says():
    with pytest.raises(HoneError) as caught:
        read_params("hone.adaptors.pytorch.aoti-bf16.enabled=false")

    assert "hone.adaptors.pytorch.aoti-bf16: the name of an adaptor contains a dot" in caught.value.why
    assert "pytorch.aoti-bf16: {enabled: false}" in caught.value.why
    advice = "hone.adaptors[pytorch.aoti-bf16].enabled=false"
    assert f"--params '{advice}'" in caught.value.why
    assert f"--set '{advice.removeprefix('hone.')}'" in caught.value.why
    assert read_params(advice).adaptors["pytorch.aoti-bf16"].enabled is False


def test_an_unknown_toolchain_under_adaptors_is_an_unknown_key_only():
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, "adaptors": {"pytorhc": {"aoti": {}}}})

    assert caught.value.why.startswith("hone.adaptors.pytorhc.aoti: unknown key")


def test_no_word_of_the_library_that_checks_is_shown():
    with pytest.raises(HoneError) as caught:
        read_recipe({"model": {"uri": "models:/x/1", "module": "net.py:Net"}})

    assert caught.value.why.startswith("hone: model.module names a class")
    assert caught.value.hint.startswith("Correct the recipe: in conf/*/parameters.yml, in --params or by a flag")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trust": "module"}, "hone.trust: must be a list, and not 'module'"),
        ({"confirm": {"looks": 5}}, "hone.confirm.looks: must be a list, and not 5"),
        ({"routes": "pytorch.onnx"}, "hone.routes: must be a list, and not 'pytorch.onnx'"),
        ({"shapes": {"one": 1}}, "hone.shapes.one: must be keys with values, and not 1"),
        ({"gates": 3}, "hone.gates: must be keys with values, and not 3"),
        ({"threads": "two"}, "hone.threads: must be a whole number, and not 'two'"),
        ({"threads": 1.5}, "hone.threads: must be a whole number, and not 1.5"),
        ({"gates": {"speedup": "5%"}}, "hone.gates.speedup: must be a number, and not '5%'"),
        ({"publish": {"enabled": "maybe"}}, "hone.publish.enabled: must be true or false, and not 'maybe'"),
        ({"publish": {"alias": 1}}, "hone.publish.alias: must be text, and not 1"),
        ({"model": {}}, "hone.model.uri: is missing"),
        ({"toolchains": 5}, "hone.toolchains: must be default, all or a list of names, and not 5"),
    ],
)
def test_a_value_of_another_kind_is_explained_in_the_words_of_yaml(change, words):
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, **change})

    assert caught.value.what == "The recipe has a problem."
    assert caught.value.why == words


def test_a_long_value_of_another_kind_is_cut():
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, "threads": "x" * 10_000})

    assert len(caught.value.why) < 200


def test_all_problems_are_named_at_once_each_on_a_line_of_its_own():
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, "seeed": 1, "thread": 2})

    assert caught.value.what == "The recipe has 2 problems."
    assert [line.strip() for line in caught.value.why.splitlines()] == [
        "hone.seeed: unknown key, did you mean 'seed'?",
        "hone.thread: unknown key, did you mean 'threads'?",
    ]
    assert HoneError.find(RuntimeError(str(caught.value))).why == caught.value.why


@pytest.mark.parametrize("text", ["iree,onnxruntime", " iree , onnxruntime "])
def test_toolchains_can_be_given_on_the_command_line(text):
    assert read_recipe({**MODEL, "toolchains": text}).toolchains == ("iree", "onnxruntime")


@pytest.fixture
def registered():
    yield register_gate
    forget_gates()


def judge_nothing(limit, candidate, source):
    return ()


def make_gate(name):
    field = Field(default=None, gt=0, description="Absolute: the energy of a call must not pass this, in joules.")
    return Gate(name=name, takes=float | None, field=field, judge=judge_nothing)


def test_a_registered_gate_is_a_key_of_the_recipe(registered):
    before = read_recipe(MODEL)
    with pytest.raises(HoneError, match="a problem"):
        read_recipe({**MODEL, "gates": {"joules": 2}})
    registered(make_gate("joules"))

    assert read_recipe({**MODEL, "gates": {"joules": 2}}).gates.joules == 2.0
    assert read_recipe({**MODEL, "gates": before.gates}).gates.joules is None
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, "gates": {"joule": 2}})
    assert "hone.gates.joule: unknown key, did you mean 'joules'?" in caught.value.why


@pytest.mark.parametrize("name", ["confidence", "require_improvement", "copy"])
def test_a_gate_cannot_take_the_name_of_something_else(registered, name):
    registered(make_gate(name))
    with pytest.raises(HoneError, match=f"cannot be named '{name}'"):
        read_recipe(MODEL)


@pytest.mark.parametrize("gates", [{}, {"speedup": 2, "latency_ms": {"batch1": 3}, "size_mb": 5, "confidence": 0.9}])
def test_a_recipe_survives_every_way_of_copying_it(gates):
    recipe = read_recipe({**MODEL, "gates": gates})

    assert pickle.loads(pickle.dumps(recipe)) == recipe  # noqa: S301 - our own bytes
    assert copy.deepcopy(recipe) == recipe
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe
    assert Recipe.model_validate(recipe.model_dump(mode="json")).digest == recipe.digest


@pytest.mark.parametrize("name", ["batch1", "64x64", "long_text", "a-b.c", "B", "-"])
def test_names_of_shapes(name):
    assert read_recipe({**MODEL, "shapes": {name: {"batch": 1}}}).shapes == {name: {"batch": 1}}


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "../x", "a/b", "a\\b", "two words", "ei\x1b[2Jght", "x\n", "größe", "[bold]"]
)
def test_a_name_of_a_shape_that_is_no_file_name_is_refused(name):
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, "shapes": {name: {"batch": 1}}})

    assert caught.value.slug == "recipe-invalid"
    assert f"hone.shapes: shape {name!r} needs a name of" in caught.value.why


@pytest.mark.parametrize("looks", [[1], [10, 7], [5, 20], [7, 7]])
def test_looks_that_the_statistics_do_not_cover_are_refused_at_once(looks):
    with pytest.raises(HoneError, match="looks"):
        read_recipe({**MODEL, "confirm": {"looks": looks}})


@pytest.mark.parametrize("weights", [{"one": 1.0}, {"one": 1.0, "many": -1.0}, {"one": 0.0, "many": 0.0}])
def test_weights_that_are_no_weights_are_refused_at_once(weights):
    shapes = {"one": {"batch": 1}, "many": {"batch": 8}}
    with pytest.raises(HoneError, match="weights"):
        read_recipe({**MODEL, "shapes": shapes, "race": {"objective": "mean", "weights": weights}})


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), "inf", 1e400])
@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("gates", "speedup"),
        ("gates", "drop"),
        ("gates", "quality"),
        ("gates", "size_mb"),
        ("gates", "memory_mb"),
        ("gates", "cold_start_ms"),
        ("gates", "confidence"),
        ("race", "seconds"),
        ("race", "burst_ms"),
        ("confirm", "burst_ms"),
    ],
)
def test_no_number_is_infinite_or_none(section, key, number):
    with pytest.raises(HoneError, match=f"hone.{section}.{key}") as caught:
        read_recipe({**MODEL, section: {key: number}})
    assert caught.value.slug == "recipe-invalid"


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
@pytest.mark.parametrize(
    ("where", "section"),
    [
        ("hone.gates.latency_ms.batch1", lambda x: {"gates": {"latency_ms": {"batch1": x}}}),
        ("hone.race.weights.batch1", lambda x: {"race": {"objective": "mean", "weights": {"batch1": x}}}),
        ("hone.model.kwargs", lambda x: {"model": {**MODEL["model"], "kwargs": {"a": [{"b": x}]}}}),
        ("hone.program.options", lambda x: {"program": {"options": {"tolerance": x}}}),
        (
            "hone.adaptors.onnxruntime.session.options",
            lambda x: {"adaptors": {"onnxruntime.session": {"options": {"a": x}}}},
        ),
    ],
)
def test_nor_is_one_in_a_map_or_in_options(where, section, number):
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, **section(number)})
    assert caught.value.slug == "recipe-invalid"
    assert where in caught.value.why


LONG = "a" * 300


@pytest.mark.attack(
    what="numbers of rounds, rows and threads that never end", who="recipe", stopped_by="every number has a bound"
)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"race": {"rounds": 5, "block": 150}}, ["hone.race", "block 150", "rounds 5"]),
        ({"race": {"rounds": 10**9}}, ["hone.race.rounds"]),
        (
            {"shapes": {"a": {"batch": 1}, "b": {"batch": 2}}, "race": {"weights": {"a": 1e308, "b": 1e308}}},
            ["race.weights"],
        ),
        ({"gates": {"latency_ms": {"batch1": -1}}}, ["hone.gates.latency_ms.batch1"]),
        ({"race": {"burst_ms": 1e9}}, ["hone.race.burst_ms"]),
        ({"confirm": {"burst_ms": 1e9}}, ["hone.confirm.burst_ms"]),
        ({"confirm": {"finalists": 10**18}}, ["hone.confirm.finalists"]),
        ({"confirm": {"rounds": 10**9}}, ["hone.confirm.rounds"]),
        ({"confirm": {"looks": [10**6]}}, ["hone.confirm.looks", "1000"]),
        ({"confirm": {"looks": [*range(2, 60)]}}, ["hone.confirm.looks"]),
        ({"gates": {"confidence": 1 - 1e-16}}, ["hone.gates.confidence"]),
        ({"gates": {"confidence": 0.99999}}, ["hone.gates.confidence"]),
        ({"seed": -1}, ["hone.seed"]),
        ({"seed": 2**32}, ["hone.seed"]),
        ({"threads": 10**6}, ["hone.threads"]),
        ({"shapes": {"a": {"batch": 10**15}}}, ["hone.shapes.a.batch", "16777216"]),
        ({"shapes": {"a": {"batch": 1, "steps": 10**15}}}, ["hone.shapes.a.steps", "16777216"]),
        ({"shapes": {"a": {"batch": 0}}}, ["hone.shapes.a.batch"]),
        ({"shapes": {"a": {"batch": 1, "steps": -1}}}, ["hone.shapes.a.steps"]),
        ({"shapes": {LONG: {"batch": 1}}}, ["hone.shapes", "100 letters"]),
        ({"model": {"uri": ""}}, ["hone.model.uri"]),
        ({"model": {"uri": f"models/{LONG}"}}, ["hone.model.uri", "255 bytes"]),
        ({"model": {"uri": "models/\0"}}, ["hone.model.uri", "null"]),
        ({"model": {"uri": "m/" * 5000}}, ["hone.model.uri"]),
        ({"program": {"name": LONG}}, ["hone.program.name", "255 bytes"]),
        ({"program": {"metric": LONG}}, ["hone.program.metric", "255 bytes"]),
        ({"publish": {"name": LONG}}, ["hone.publish.name", "255 bytes"]),
        ({"publish": {"name": ""}}, ["hone.publish.name"]),
        ({"publish": {"alias": ""}}, ["hone.publish.alias"]),
        ({"publish": {"alias": LONG}}, ["hone.publish.alias"]),
    ],
)
def test_what_would_fail_late_or_never_end_is_refused(change, words):
    with pytest.raises(HoneError) as caught:
        read_recipe({**MODEL, **change})

    assert caught.value.slug == "recipe-invalid"
    for word in words:
        assert word in caught.value.why


def test_the_bounds_themselves_are_taken():
    shapes = {"a" * 100: {"batch": 2**24}}
    race, confirm = {"rounds": 150, "block": 150}, {"finalists": 100, "looks": [2]}
    gates = {"confidence": 0.9999}
    assert read_recipe({**MODEL, "seed": 2**32 - 1, "shapes": shapes, "race": race, "confirm": confirm, "gates": gates})


def test_a_recipe_has_one_digest_in_every_process():
    """A set of texts has another order in each."""
    code = (
        "from kedro_hone.recipe.schema import read_recipe; "
        "print(read_recipe({'model': {'uri': 'm'}, 'trust': ['module', 'pickle']}).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(6)
    }
    assert len(digests) == 1


def test_a_shape_that_another_environment_leaves_out():
    shapes = {"batch1": {"batch": 1}, "many": {"batch": 8}}
    assert read_recipe({**MODEL, "shapes": {**shapes, "batch1": None}}).shapes == {"many": {"batch": 8}}
    with pytest.raises(HoneError, match=r"hone\.shapes"):
        read_recipe({**MODEL, "shapes": dict.fromkeys(shapes)})


def test_the_demos_measure_their_own_shapes():
    loader = OmegaConfigLoader(str(Path(__file__).parents[3] / "conf"), **CONFIG_LOADER_ARGS, env="minilm")
    assert set(read_recipe(loader["parameters"]["hone"]).shapes) == {"sentence", "batch"}
