"""Which splits a recipe asks for."""

from __future__ import annotations

import pytest

from kedro_hone.pipelines import pull
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe


@pytest.mark.parametrize(
    ("toolchain", "adaptors", "asked"),
    [
        ("sparseml", {}, True),
        ("sparseml", {"sparseml.tune": {"enabled": False}}, False),
        ("compress", {}, True),
    ],
)
def test_the_training_split_is_asked_for_where_something_is_trained(toolchain, adaptors, asked):
    recipe = {"model": {"uri": "models:/digits/1"}, "toolchains": ["pytorch", toolchain], "adaptors": adaptors}
    inputs = pull.create_pipeline(make_plan(read_recipe(recipe))).inputs()
    assert {"calibration", "search", "gate"} <= inputs
    assert ("training" in inputs) is asked
