"""The graph that compares candidates."""

from __future__ import annotations

import pytest

from hone_runtime.values.composite import COMPOSITE
from kedro_hone.pipelines import compare
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe


@pytest.mark.filterwarnings("ignore:One or more dataset names contain")
def test_a_composite_which_no_budget_leaves_out_is_validated_without_the_forecast():
    pipeline = compare.create_pipeline(make_plan(read_recipe({"model": {"uri": "models:/digits/1"}})))
    given = {node.name for node in pipeline.nodes if "forecast" in node.inputs}
    validated = {node.name for node in pipeline.nodes if "validate" in node.tags}
    assert validated - given == {f"race.{COMPOSITE}.validate"}


@pytest.mark.filterwarnings("ignore:One or more dataset names contain")
@pytest.mark.parametrize("serving", [True, False])
def test_the_wire_is_measured_before_the_report_if_the_recipe_asks_for_it(serving):
    recipe = read_recipe({"model": {"uri": "models:/digits/1"}, "serving": serving})
    nodes = {node.name: node for node in compare.create_pipeline(make_plan(recipe)).nodes}
    assert ("gate.wire" in nodes) is serving
    assert ("wire" in nodes["gate.report"].inputs) is serving
