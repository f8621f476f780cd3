"""Where the steps of a build may run."""

from __future__ import annotations

import pytest

from kedro_hone.pipelines import build
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe

# Kedro warns once in a process of a dotted name, so whichever test makes the first node of one would fail.
pytestmark = pytest.mark.filterwarnings("ignore:One or more dataset names contain:UserWarning")


def test_what_measures_while_it_builds_runs_where_and_as_what_measures():
    recipe = {"model": {"uri": "models:/digits/1"}, "toolchains": ["onnxruntime", "pytorch", "tvm", "tensorrt"]}
    nodes = build.create_pipeline(make_plan(read_recipe(recipe))).nodes
    needs: dict[str, set[str]] = {}
    for node in nodes:
        for name in [tag.removeprefix("toolchain.") for tag in node.tags if tag.startswith("toolchain.")]:
            needs.setdefault(name, set()).update(tag for tag in node.tags if tag.startswith("needs."))
    assert needs == {"onnxruntime": set(), "pytorch": set(), "tvm": {"needs.bench"}, "tensorrt": {"needs.gpu"}}
