"""One graph, whoever runs it: the same nodes and the same artifacts with every runner, and in every view of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import Project, copy_project

from hone_runtime.contract.proof import EVIDENCE_FILES

REPORTED = ("evidence.json", "publication.json")
PIPELINES = ["__default__", "assess", "build", "choose", "compare", "demo", "publish", "pull"]

SNAPSHOT = """
import json
from kedro.inspection import get_project_snapshot
pipelines = {pipeline.name: pipeline.nodes for pipeline in get_project_snapshot(".").pipelines}
print(json.dumps(sorted(node.name for node in pipelines["__default__"])))
"""

WANDER = """

import os
import tempfile


class Wanderer:
    @hook_impl
    def before_node_run(self):
        os.chdir(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=os.environ["SHOP_WANDER"]))


HOOKS = (*HOOKS, Wanderer())
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
    """A project that ran once, every node in a process that inherits nothing, and in a working directory of its own.

    What the processes share is the store and the catalog.
    """
    project = copy_project(template, tmp_path_factory.mktemp("spawned"))
    settings = project.root / "src" / "shop" / "settings.py"
    settings.write_text(settings.read_text() + WANDER)
    wander = tmp_path_factory.mktemp("elsewhere")
    project.environment |= {"KEDRO_MP_CONTEXT": "spawn", "SHOP_WANDER": str(wander)}
    project.first = project.run("--runner", "ParallelRunner")
    assert len([*wander.iterdir()]) == len(project.read_diary())
    assert not [*wander.rglob("*/*")]  # and nothing was left there
    return project


def join(template: Path, folder: Path, *, shared: Path, values: Path | None = None) -> Project:
    """Make a machine: a project whose store is shared behind fsspec, with the catalog's values of another one."""
    store = {
        "type": "kedro_hone.datasets.StoreDataset",
        "filepath": f"dir::{shared.as_uri()}",
        "cache": "data/cache",
        "fs_args": {"file": {"auto_mkdir": True}},
    }
    project = copy_project(template, folder)
    catalog = project.root / "conf" / "base" / "catalog.yml"
    lines = [line for line in catalog.read_text().split("\n") if not line.startswith("store:")]
    catalog.write_text("\n".join([*lines, f"store: {json.dumps(store)}", ""]))
    if values is not None:
        shutil.copytree(values, project.work / "work")
    return project


@pytest.fixture(scope="module")
def continued(template, tmp_path_factory):
    """A line that one machine began and another one ended.

    They share a store behind fsspec and the values of the catalog; the first machine is gone when the second starts.
    """
    shared = tmp_path_factory.mktemp("shared")
    one = join(template, tmp_path_factory.mktemp("one"), shared=shared)
    one.run("--pipelines", "pull,build")
    two = join(template, tmp_path_factory.mktemp("two"), shared=shared, values=one.work / "work")
    shutil.rmtree(one.root)
    two.first = two.run("--pipelines", "compare")
    two.shared = shared
    return two


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


@pytest.mark.nightly
def test_both_runners_run_the_same_nodes(finished, spawned):
    assert sorted(spawned.read_diary()) == sorted(finished.read_diary())
    assert len(set(finished.read_diary())) == len(finished.read_diary())


@pytest.mark.nightly
def test_both_runners_make_the_same_artifacts(finished, spawned):
    assert "PASS" in spawned.first.output
    one, other = (
        {name: outcome.get("digest", outcome.get("reason")) for name, outcome in project.read_outcomes().items()}
        for project in (finished, spawned)
    )
    assert one == other
    assert sum(str(value).startswith("sha256:") for value in one.values()) == 6
    assert finished.evidence["counts"]["builds"] == spawned.evidence["counts"]["builds"]


@pytest.mark.nightly
def test_both_runners_hand_on_the_same_values(finished, spawned):
    """All that the verdict rests on, but for times and what is measured."""
    for name in ("source", "samples", "reference", "version"):
        one, other = (json.loads((each.work / "work" / f"{name}.json").read_text()) for each in (finished, spawned))
        for measured in ("cold_start_ms", "peak_memory_bytes", "pulled", "run", "since"):
            assert (one.pop(measured, 0) != 0) == (other.pop(measured, 0) != 0), measured
        assert one == other, name
    one, other = finished.evidence, spawned.evidence
    for same in ("recipe", "verdict", "source", "data", "environments"):
        assert one[same] == other[same], same
    assert [row["quality"] for row in one["candidates"]] == [row["quality"] for row in other["candidates"]]
    qualities = {row["id"]: row["quality"]["id"] for row in one["candidates"] if row["quality"]}
    assert {name: found for name, found in qualities.items() if found not in {"", name}} == {}  # of twins, too


def list_texts(value):
    """Every text in a JSON value, keys too."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return [text for each in value for text in list_texts(each)] if isinstance(value, list) else [value]


@pytest.mark.nightly
def test_no_value_that_is_kept_names_a_place_of_this_machine(finished, spawned):
    for project in (finished, spawned):
        store = project.store.root
        kept = [*(project.work / "work").glob("*.json"), *store.glob("steps/*.json"), *store.glob("values/*.json")]
        kept += [*store.glob("objects/*/artifact.json"), *(project.work / "latest" / name for name in REPORTED)]
        assert len(kept) > 40
        for path in kept:
            texts = [str(text) for text in list_texts(json.loads(path.read_text()))]
            here = [text for text in texts if text.startswith("/") or str(project.root.parent) in text]
            assert not here, path


@pytest.mark.nightly
def test_another_machine_continues_over_a_shared_store(finished, continued):
    assert "PASS" in continued.first.output
    one, other = finished.evidence, continued.evidence
    for same in ("recipe", "verdict", "source", "data", "environments"):
        assert one[same] == other[same], same
    for row, again in zip(one["candidates"], other["candidates"], strict=True):
        assert (row["id"], row.get("artifact"), row["quality"]) == (
            again["id"],
            again.get("artifact"),
            again["quality"],
        )
    objects = next(continued.shared.rglob("objects"))  # fsspec repeats the folder's path below it
    assert {path.name for path in (continued.root / "data" / "cache" / "objects").iterdir()} <= {
        path.name for path in objects.iterdir()
    }
    assert not [*continued.root.rglob("steps/*.json")]  # records are only in the shared store


@pytest.mark.nightly
def test_a_machine_that_has_no_folder_of_the_run_publishes_it(continued, template, tmp_path):
    three = join(template, tmp_path, shared=continued.shared, values=continued.work / "work")
    (run,) = continued.runs
    three.run("--pipelines", "publish")
    (place,) = {path.parent.resolve() for path in three.root.rglob("*-hone/*/hone.json")}
    for name in EVIDENCE_FILES:
        assert (place / "evidence" / name).read_bytes() == (run / name).read_bytes(), name
    # What a person reads about the publication is in a folder of that run, with all that it is about.
    (copy,) = three.runs
    assert copy.name == run.name
    assert json.loads((copy / "publication.json").read_text())["uri"] == "models/matrix-hone/1"
    assert "models/matrix-hone/1" in (copy / "report.md").read_text()
    for name in ("evidence.json", "timings.npz"):
        assert (copy / name).read_bytes() == (run / name).read_bytes(), name


@pytest.mark.parametrize("script", [SNAPSHOT, VIZ], ids=["snapshot", "viz"])
def test_the_same_nodes_are_seen_without_a_run(finished, script):
    assert look(finished, script) == sorted(finished.read_diary())


@pytest.mark.nightly
def test_one_namespace_can_be_run_alone_after_a_first_run(spawned):
    before = spawned.read_diary()
    outcome = spawned.work / "work" / "tensorflow.shop_round.shop_fast.outcome.json"
    was = json.loads(outcome.read_text())
    outcome.unlink()
    spawned.run("--pipelines", "build", "--namespaces", "build.tensorflow.shop_round")
    ran = spawned.read_diary()[len(before) :]
    assert sorted(ran) == ["build.tensorflow.shop_round.compress", "build.tensorflow.shop_round.shop_fast.compile"]
    assert json.loads(outcome.read_text()) == was


@pytest.mark.nightly
@pytest.mark.parametrize(
    "runner",
    ["ParallelRunner", "SequentialRunner", "ThreadRunner"],
)
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


@pytest.mark.nightly
def test_an_error_of_the_users_crosses_the_processes(project):
    project.environment["KEDRO_MP_CONTEXT"] = "spawn"
    project.set(model={"uri": "models/matrxi"})
    done = project.run("--runner", "ParallelRunner", code=3)
    assert "hone explain model-unknown" in done.output
