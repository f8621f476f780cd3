"""The graph as Kedro-Viz and other platforms group it: one box for each stage."""

from __future__ import annotations

import pytest

from kedro_hone.pipelines import build, compare, publish, pull
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe

STAGES = ["build", "confirm", "gate", "publish", "pull", "race"]

pytestmark = pytest.mark.filterwarnings("ignore:One or more dataset names contain:UserWarning")


def make_graph(**recipe):
    plan = make_plan(read_recipe({"model": {"uri": "models:/digits/1"}, **recipe}))
    parts = (pull.create_pipeline(plan), build.create_pipeline(plan), compare.create_pipeline(plan))
    return sum(parts, publish.create_pipeline())


@pytest.mark.parametrize("recipe", [{}, {"gates": {"beat_published": True}}, {"toolchains": ["onnxruntime"]}])
def test_every_node_is_in_one_of_six_groups(recipe):
    graph = make_graph(**recipe)
    assert sorted(group.name for group in graph.group_nodes_by("namespace")) == STAGES


def test_stages_depend_on_each_other_in_one_direction():
    groups = {group.name: {*group.dependencies} for group in make_graph().group_nodes_by("namespace")}
    assert groups["build"] == {"pull"}
    assert groups["race"] == {"build", "pull"}
    assert "gate" not in groups["confirm"]
    assert groups["publish"] <= {"gate", "pull"}


def test_one_dataset_and_not_one_of_each_route_leads_from_building_to_the_race():
    graph = make_graph()
    racing = graph.only_nodes_with_namespaces(["race"])
    made = graph.only_nodes_with_namespaces(["build"]).all_outputs()
    assert racing.inputs() & made == {"validations", "forecast"}


def test_a_route_alone_is_a_namespace_and_its_datasets_have_no_stage():
    route = make_graph().only_nodes_with_namespaces(["build.onnx.onnxruntime_int8_static.onnxruntime_session"])
    assert {node.name.rpartition(".")[2] for node in route.nodes} == {"compile", "validate"}
    name = "onnx.onnxruntime_int8_static.onnxruntime_session"
    assert route.all_outputs() == {f"{name}.outcome", f"{name}.validation"}


@pytest.mark.filterwarnings("ignore")
def test_kedro_viz_opens_on_the_stages():
    managers = pytest.importorskip("kedro_viz.data_access.managers")
    from kedro.io import DataCatalog

    manager, graph = managers.DataAccessManager(), make_graph()
    manager.add_catalog(DataCatalog(), {"__default__": graph})
    manager.add_pipelines({"__default__": graph})
    tree = manager.create_modular_pipelines_tree_for_registered_pipeline("__default__")
    shown = [child for child in tree["__root__"].children if child.type in {"task", "modularPipeline"}]
    names = {getattr(manager.nodes.get_node_by_id(child.id), "name", child.id) for child in shown}
    assert sorted(names) == STAGES
    datasets = [child for child in tree["__root__"].children if child.type == "data"]
    assert not [one for one in datasets if "." in str(manager.nodes.get_node_by_id(one.id).name)]
