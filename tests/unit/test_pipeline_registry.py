"""Kedro-hone's pipelines next to those of a project."""

from __future__ import annotations

import pytest
from kedro.framework import project
from kedro.pipeline import Node, Pipeline

from kedro_hone import graph, pipeline_registry
from kedro_hone.pipeline_registry import add_pipelines, register_pipelines

RECIPE = {"model": {"uri": "models/m"}, "program": {"name": "fidelity"}, "shapes": {"one": {"batch": 1}}}
NAMES = {"hone", "hone.pull", "hone.build", "hone.compare", "hone.publish", "hone.assess", "hone.choose"}
THEIRS = Pipeline([Node(lambda x: x, "a", "b", name="buy")])


@pytest.fixture
def wanted(monkeypatch):
    """Return a function that sets which pipelines Kedro was asked for."""
    monkeypatch.setattr(project, "pipelines", project._ProjectPipelines())
    monkeypatch.setitem(graph._current, "hone", RECIPE)
    return project.pipelines.set_requested


def register():
    """Return the pipelines as Kedro's ``find_pipelines(raise_errors=True)`` does in a project with one."""
    asked = project.pipelines._requested_pipelines
    if asked and (unknown := {*asked} - {"buy", "__default__"}):
        raise ImportError(f"no module named {unknown}")
    return {"buy": THEIRS, "__default__": THEIRS}


def test_all_of_both_are_registered_and_the_default_is_theirs(wanted):
    wanted(None)
    found = add_pipelines(register)()
    assert {*found} == NAMES | {"buy", "__default__"}
    assert found["__default__"] is THEIRS


@pytest.mark.parametrize(
    ("asked", "theirs", "ours"),
    [(["hone"], False, True), (["hone.choose", "hone.publish"], False, True), (["buy", "hone"], True, True),
     (["buy"], True, False)],
)  # fmt: skip
def test_only_what_is_asked_for_is_looked_for(wanted, asked, theirs, ours):
    wanted(asked)
    found = add_pipelines(register)()
    assert ("buy" in found, "hone" in found) == (theirs, ours)
    assert project.pipelines._requested_pipelines == asked


def test_names_cost_no_graph(wanted, monkeypatch):
    monkeypatch.setattr(pipeline_registry, "read_plan", lambda: pytest.fail("the graph was made"))
    assert {*register_pipelines("hone")} == NAMES


def test_each_is_made_when_it_is_looked_into(wanted):
    found = register_pipelines("hone")
    whole = found["hone"]
    assert {node.name for node in whole.nodes} >= {"pull.pull", "race.race", "publish"}
    assert [node.name for node in found["hone.publish"].nodes] == ["publish"]
    assert "publish" in {node.name for node in (THEIRS + found["hone.publish"]).nodes}
    assert found["hone.pull"].all_outputs() == {"version", "source", "samples", "reference"}


def test_without_a_recipe_there_are_none(monkeypatch):
    monkeypatch.setattr(pipeline_registry, "has_recipe", lambda: False)
    assert register_pipelines("hone") == {}


def test_a_command_of_ours_finds_the_names_of_the_project(monkeypatch):
    monkeypatch.setattr(project, "PACKAGE_NAME", "kedro_hone")
    assert graph.list_pipelines(["choose", "publish"]) == ["choose", "publish"]
    assert graph.list_pipelines([]) == []
    monkeypatch.setattr(pipeline_registry, "register_pipelines", add_pipelines(register))
    assert graph.list_pipelines(["choose", "publish", "buy"]) == ["hone.choose", "hone.publish", "buy"]
    assert graph.list_pipelines([]) == ["hone"]
