from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.derivation.program import ChosenProgram
from kedro_hone.derivation.request import Request
from kedro_hone.derivation.training import check_training
from kedro_hone.recipe.schema import read_recipe

NAMED = {"calibration": "c.npz", "search": "s.npz", "gate": "g.npz"}


def check(data, *, program="image-classification", toolchains=("pytorch", "onnxruntime", "compress")):
    recipe = read_recipe({"model": {"uri": "net.pt2"}, "toolchains": [*toolchains]})
    return check_training(Request(source="net.pt2", data=data), ChosenProgram(name=program, why=""), recipe)


@pytest.mark.parametrize("data", [{"": "rows.npz"}, {**NAMED, "training": "t.npz"}])
def test_a_recipe_with_a_compressor_trains(data):
    assert check(data)
    assert not check(data, toolchains=("pytorch", "onnxruntime"))


def test_named_splits_need_one_that_trains():
    with pytest.raises(HoneError) as caught:
        check(NAMED)
    assert caught.value.what == "--data lacks the split training."
    assert not check(NAMED, toolchains=("pytorch",))


def test_without_labels_nothing_trains():
    with pytest.raises(HoneError) as caught:
        check({"": "rows.npz"}, program="fidelity")
    assert "no labels" in caught.value.what
    assert not check({"": "rows.npz"}, program="fidelity", toolchains=("pytorch",))
