from __future__ import annotations

import pickle
import warnings

import pytest
from kedro.pipeline import Pipeline
from kedro.validation import TypeExtractor

from kedro_hone.pipelines import build, compare, demo, publish, pull
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import Recipe, read_recipe


@pytest.fixture(scope="module")
def pipelines() -> dict[str, Pipeline]:
    plan = make_plan(read_recipe({"model": {"uri": "models:/digits/1"}}))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="One or more dataset names contain")
        return {
            "pull": pull.create_pipeline(plan),
            "build": build.create_pipeline(plan),
            "compare": compare.create_pipeline(plan),
            "publish": publish.create_pipeline(),
            "demo": demo.create_pipeline(),
        }


def read_decided_by(node):
    return [*node.func.keywords["decided_by"]]


@pytest.mark.parametrize("name", ["pull", "build", "compare", "publish", "demo"])
def test_kedro_makes_the_recipe_of_every_node(pipelines, name):
    for node in pipelines[name].nodes:
        assert TypeExtractor({"one": Pipeline([node])}).extract_types_from_pipelines() == {"hone": Recipe}, node


def test_a_decision_names_every_key_of_the_recipe_but_where_it_is_published(pipelines):
    """By the nodes before it: what a node hands on names all that decided its inputs, too.

    What a person chose is in the race's result; where wheels come from changes nothing, since their digests are locked.
    """
    decided = {key for name in ("pull", "compare") for node in pipelines[name].nodes for key in read_decided_by(node)}
    undecided = {"publish", "report", "choose", "serving", "wheels"}  # a price changes a report alone
    assert {key.partition(".")[0] for key in decided} == Recipe.model_fields.keys() - undecided


def test_a_step_is_decided_by_the_options_of_its_adaptors(pipelines):
    nodes = {node.name: read_decided_by(node) for node in pipelines["build"].nodes}
    assert nodes.pop("build.forecast") == [], "which decides the order alone"
    for name, decided in nodes.items():
        assert decided, name
        assert all(key.startswith("adaptors.") for key in decided), name
    assert nodes["build.onnx.onnxruntime_session.compile"] == ["adaptors.onnxruntime.session"]


def test_nodes_can_be_sent_to_other_processes(pipelines):
    for pipeline in pipelines.values():
        for node in pipeline.nodes:
            assert pickle.loads(pickle.dumps(node)).name == node.name  # noqa: S301 - our own
