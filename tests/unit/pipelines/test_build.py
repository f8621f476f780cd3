"""Where the steps of a build may run, and which there are."""

from __future__ import annotations

import pytest

from kedro_hone.pipelines import build, compare
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


def test_each_of_several_values_of_an_option_is_a_namespace_of_its_own():
    listed = {"onnxruntime.int8-static": {"options": {"activations": ["uint8", "int8"]}}}
    recipe = {"model": {"uri": "models:/digits/1"}, "toolchains": ["onnxruntime"], "adaptors": listed}
    plan = make_plan(read_recipe(recipe))
    steps = {node.namespace: node for node in build.create_pipeline(plan).nodes if "+" in str(node.namespace)}
    validations = {node.namespace: node for node in compare.create_pipeline(plan).nodes if "+" in str(node.namespace)}
    for value in ("uint8", "int8"):
        quantized = f"onnx.onnxruntime_int8_static+activations={value}"
        compiled = f"{quantized}.onnxruntime_session"
        bound = steps[f"build.{quantized}"].func.keywords["function"].keywords
        assert bound["options"].model_dump()["activations"] == value
        assert bound["title"] == f'onnxruntime.int8-static (activations="{value}")'
        assert f"{quantized}.outcome" in steps[f"build.{compiled}"].inputs
        bound = validations[f"build.{compiled}"].func.keywords["function"].keywords
        assert bound["options"] == {"onnxruntime.int8-static": {"activations": value}}


def test_what_trains_or_measures_operators_runs_undisturbed():
    """Two tunings at once measured 1.35 of fp32's time for a graph with nine operators in int8."""
    recipe = {"model": {"uri": "models:/digits/1"}, "toolchains": ["onnxruntime", "pytorch", "compress"]}
    recipe["adaptors"] = {"onnxruntime.int8-tuned": {"enabled": True}}
    nodes = build.create_pipeline(make_plan(read_recipe(recipe))).nodes
    trains = {one.namespace.rpartition(".")[2].partition("+")[0] for one in nodes if "trains" in one.tags}
    assert {"compress_prune_channels", "compress_qat"} <= trains
    assert all(name.startswith("compress_") for name in trains)
    alone = {one.namespace.rpartition(".")[2].partition("+")[0] for one in nodes if "undisturbed" in one.tags}
    assert alone == trains | {"onnxruntime_int8_tuned"}
