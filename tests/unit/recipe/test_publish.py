"""The forms that are published with a winner."""

from __future__ import annotations

from typing import get_args

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.recipe.publish import IMAGE, Form
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.serving.export.exports import TARGETS


def test_each_target_but_the_one_that_needs_a_place_is_a_form():
    assert {*get_args(Form)} == {*TARGETS, IMAGE} - {"kserve"}


def test_a_list_from_the_command_line_is_one_text():
    recipe = read_recipe({"model": {"uri": "m.onnx"}, "publish": {"export": "triton,onnx"}})
    assert recipe.publish.export == ("triton", "onnx")


@pytest.mark.parametrize(
    "publish", [{"export": ["image"]}, {"image": {"push": "localhost:5000/hone/digits:1"}}, {"export": ["tritn"]}]
)
def test_an_image_needs_a_place_and_a_form_a_known_name(publish):
    with pytest.raises(HoneError) as refused:
        read_recipe({"model": {"uri": "m.onnx"}, "publish": publish})
    assert refused.value.slug == "recipe-invalid"
    assert "publish" in f"{refused.value}"
