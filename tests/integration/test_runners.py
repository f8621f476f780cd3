"""One graph, whoever runs it: the same nodes and the same artifacts with every runner, and in every view of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from small_project import copy_project

PIPELINES = ["__default__", "assess", "build", "compare", "demo", "publish", "pull"]

SNAPSHOT = """
import json
from kedro.inspection import get_project_snapshot
pipelines = {pipeline.name: pipeline.nodes for pipeline in get_project_snapshot(".").pipelines}
print(json.dumps(sorted(node.name for node in pipelines["__default__"])))
"""

VIZ = """
import json
from pathlib import Path
from kedro_viz.data_access import data_access_manager
from kedro_viz.integrations.kedro.data_loader import load_data
from kedro_viz.server import populate_data
catalog, pipelines, *rest = load_data(Path.cwd())
populate_data(data_access_manager, catalog, {"__default__": pipelines["__default__"]}, *rest)
tasks = [node for node in data_access_manager.nodes.as_list() if node.type == "task"]
print(json.dumps(sorted(node.kedro_obj.name for node in tasks)))
"""


@pytest.fixture(scope="module")
def spawned(template, tmp_path_factory):
    """A project that ran once, every node in a process of its own that inherits nothing."""
    project = copy_project(template, tmp_path_factory.mktemp("spawned"))
    project.environment["KEDRO_MP_CONTEXT"] = "spawn"
    project.first = project.run("--runner", "ParallelRunner")
    return project


def look(project, script):
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=project.root,
        env=project.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_pipelines_are_registered(finished):
    done = finished.call("registry", "list")
    assert [line.removeprefix("- ") for line in done.output.split("\n") if line.startswith("- ")] == PIPELINES


def test_both_runners_run_the_same_nodes(finished, spawned):
    assert sorted(spawned.read_diary()) == sorted(finished.read_diary())
    assert len(set(finished.read_diary())) == len(finished.read_diary())


def test_both_runners_make_the_same_artifacts(finished, spawned):
    assert "PASS" in spawned.first.output
    one, other = (
        {name: outcome.get("digest", outcome.get("reason")) for name, outcome in project.read_outcomes().items()}
        for project in (finished, spawned)
    )
    assert one == other
    assert sum(str(value).startswith("sha256:") for value in one.values()) == 8
    assert finished.evidence["counts"]["builds"] == spawned.evidence["counts"]["builds"]


@pytest.mark.parametrize("script", [SNAPSHOT, VIZ], ids=["snapshot", "viz"])
def test_the_same_nodes_are_seen_without_a_run(finished, script):
    assert look(finished, script) == sorted(finished.read_diary())


def test_one_namespace_can_be_run_alone_after_a_first_run(spawned):
    before = spawned.read_diary()
    outcome = spawned.work / "work" / "tensorflow.shop_round.shop_half.outcome.json"
    was = json.loads(outcome.read_text())
    outcome.unlink()
    spawned.run("--pipelines", "build", "--namespaces", "tensorflow.shop_round")
    ran = spawned.read_diary()[len(before) :]
    assert sorted(ran) == [
        "tensorflow.shop_round.compress",
        "tensorflow.shop_round.shop_fast.compile",
        "tensorflow.shop_round.shop_half.compile",
    ]
    assert json.loads(outcome.read_text()) == was


@pytest.mark.parametrize("runner", ["ParallelRunner", "ThreadRunner"])
def test_a_node_sees_what_the_command_line_changed(project, runner):
    project.environment["KEDRO_MP_CONTEXT"] = "spawn"
    project.run(
        "--runner",
        runner,
        "--pipelines",
        "pull,build",
        "--params",
        "hone.adaptors={'shop.slow': {'enabled': False}}",
    )
    assert "source.shop_slow" not in project.read_outcomes()


def test_an_error_of_the_users_crosses_the_processes(project):
    project.environment["KEDRO_MP_CONTEXT"] = "spawn"
    project.set(model={"uri": "models/matrxi"})
    done = project.run("--runner", "ParallelRunner", code=3)
    assert "hone explain model-unknown" in done.output
