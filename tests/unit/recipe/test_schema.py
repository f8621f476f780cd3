from __future__ import annotations

import os

import pytest

from kedro_hone.core.errors import HoneError
from kedro_hone.recipe.schema import read_recipe

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


def test_all_problems_are_named_at_once():
    with pytest.raises(HoneError, match="2 problem"):
        read_recipe({**MODEL, "seeed": 1, "thread": 2})


@pytest.mark.parametrize("text", ["iree,onnxruntime", " iree , onnxruntime "])
def test_toolchains_can_be_given_on_the_command_line(text):
    assert read_recipe({**MODEL, "toolchains": text}).toolchains == ("iree", "onnxruntime")
