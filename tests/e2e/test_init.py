"""Kedro-hone as a guest: ``kedro hone init`` in projects of others, whose own pipelines go on running."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from small_project import ADAPTORS, FAST, ROWS, Project, copy_project

from kedro_hone.report.result_file import VARIABLE, read_result
from kedro_hone.scaffold.project import PLACEHOLDER, Addition, plan_changes
from kedro_hone.scaffold.starters import STARTERS
from kedro_hone.scaffold.texts import write_entries, write_recipe

PIPELINE = '''
"""A pipeline of the team's own, which uses names that kedro-hone uses, too."""

from kedro.pipeline import Node, Pipeline


def make(share):
    print("made", share)
    return [share]


def read(samples):
    print("read", samples)
    return samples


def create_pipeline(**_):
    return Pipeline([Node(make, "params:share", "samples"), Node(read, "samples", "evidence")])
'''
HOOKS = '''
from kedro.framework.hooks import hook_impl


class TeamHooks:
    """As kedro-mlflow's, they see every run."""

    @hook_impl
    def before_pipeline_run(self, pipeline):
        print("the team's hook saw", len(pipeline.nodes), "nodes")
'''
NUMPY = '''
from pathlib import PurePosixPath

import numpy as np
from kedro.io import AbstractDataset


class ArraysDataset(AbstractDataset):
    """As a dataset of kedro-datasets: one file, and objects of Python in memory."""

    def __init__(self, *, filepath):
        self._filepath, self._protocol = PurePosixPath(filepath), "file"

    def load(self):
        return dict(np.load(self._filepath))

    def save(self, data):
        np.savez(self._filepath, **data)

    def _describe(self):
        return {"filepath": str(self._filepath)}
'''


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A project as ``kedro new`` writes it, with one pipeline."""
    folder = tmp_path_factory.mktemp("new")
    options = ("--name=team", "--tools=none", "--example=n", "--telemetry=no")
    command = [sys.executable, "-W", "ignore", "-m", "kedro", "new", *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    package = folder / "team" / "src" / "team"
    (package / "pipelines" / "make").mkdir(parents=True)
    (package / "pipelines" / "make" / "__init__.py").write_text(PIPELINE)
    (folder / "team" / "conf" / "base" / "parameters.yml").write_text("share: 0.5\n")
    return folder / "team"


@pytest.fixture
def team(fresh, tmp_path):
    shutil.copytree(fresh, tmp_path / "team")
    return Team(tmp_path / "team")


class Team(Project):
    """A project whose parameters are its own."""

    def write(self):
        """Leave the parameters as they are."""

    def tell(self, *arguments, code=0, module="kedro"):
        done = self.call(*arguments, module=module)
        assert done.code == code, done.output
        return done.output

    def check_own(self, said=()):
        """Assert that the team's pipelines run as ever."""
        told = self.tell("run")
        assert {"made 0.5", "read [0.5]", *said} <= {*told.splitlines()}
        assert self.tell("run", "--pipelines=make").count("made 0.5") == 1
        assert not (self.root / "data" / "hone").exists()


def with_hooks(team):
    """Give the team hooks, and plug-ins that it disables, as a project with kedro-mlflow has."""
    package = team.root / "src" / "team"
    (package / "hooks.py").write_text(HOOKS)
    settings = package / "settings.py"
    lines = '\nfrom team.hooks import TeamHooks\nHOOKS = (TeamHooks(),)\nDISABLE_HOOKS_FOR_PLUGINS = ("kedro-viz",)\n'
    settings.write_text(settings.read_text() + lines)
    return ("the team's hook saw 2 nodes",)


def with_folders(team):
    """Give the team a folder of parameters and one of catalogs."""
    base = team.root / "conf" / "base"
    (base / "parameters").mkdir()
    (base / "parameters.yml").rename(base / "parameters" / "team.yml")
    (base / "catalog").mkdir()
    (base / "catalog.yml").unlink()
    (base / "catalog" / "team.yml").write_text("raw: {type: MemoryDataset}\n")
    return ()


KINDS = {"fresh": lambda _: (), "hooks": with_hooks, "folders": with_folders}


@pytest.mark.parametrize(
    "kind", ["fresh", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("hooks", "folders"))]
)
def test_in_a_project_of_others_their_own_pipelines_still_run(team, kind):
    said = KINDS[kind](team)
    team.check_own(said)
    before = {path: path.read_bytes() for path in team.root.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    told = team.tell("hone", "init", "models:/churn/3", "--data", "gate=gate.csv", "--yes")
    assert "+    uri: models:/churn/3" in told
    assert "kedro_hone.settings" in told
    added = {path: path.read_bytes() for path in before}
    assert all(added[path].startswith(text) for path, text in before.items())

    assert "Nothing to add" in team.tell("hone", "init", "models:/churn/3", "--yes")
    assert all(path.read_bytes() == text for path, text in added.items())
    team.check_own(said)
    names = re.findall(r"^- (\S+)", team.tell("registry", "list"), re.MULTILINE)
    assert {"__default__", "make", "hone", "hone.pull", "hone.choose"} <= {*names}
    assert not {"demo", "pull"} & {*names}
    told = team.tell("run", code=3, module="kedro_hone")
    assert "gate.csv cannot be read" in told
    assert "(data-missing)" in told


def test_without_a_recipe_hooks_and_registry_do_nothing(team):
    team.tell("hone", "init", "--yes")
    (team.root / "conf" / "base" / "parameters.yml").write_text("share: 0.5\n")
    team.check_own()
    assert "hone" not in team.tell("registry", "list")


def test_nothing_is_written_without_an_answer(team):
    before = (team.root / "src" / "team" / "settings.py").read_bytes()
    told = team.tell("hone", "init", code=2)
    assert "+from kedro_hone.settings import *" in told
    assert "add --yes" in told
    assert "SPLIT=PATH" in team.tell("hone", "init", "--data", "test=a.csv", code=2)
    assert (team.root / "src" / "team" / "settings.py").read_bytes() == before


def test_a_starter_makes_a_project_that_lacks_nothing(tmp_path):
    (starter,) = STARTERS
    made = Team(tmp_path / "fast-models")
    options = ("--starter", starter.template_path, "--name=Fast models", "--telemetry=no")
    command = [sys.executable, "-W", "ignore", "-m", "kedro", "new", *options]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert plan_changes(made.root, Addition()) == []
    base = made.root / "conf" / "base"
    assert (base / "parameters.yml").read_text() == write_recipe(PLACEHOLDER)
    assert (base / "catalog.yml").read_text() == write_entries(dict.fromkeys(ROWS, ""))
    assert (made.root / "conf" / "local" / ".gitkeep").is_file()
    assert "hone.choose" in made.tell("registry", "list")
    assert "(data-missing)" in made.tell("run", code=3, module="kedro_hone")


def test_any_other_folder_becomes_a_project_of_three_files(tmp_path):
    folder = Team(tmp_path / "folder")
    folder.root.mkdir()
    folder.tell("hone", "init", "models:/churn/3", "--yes", module="kedro_hone")
    files = {path.relative_to(folder.root).as_posix() for path in folder.root.rglob("*") if path.is_file()}
    assert files == {"conf/base/parameters.yml", "conf/base/catalog.yml", "conf/local/.gitkeep"}
    assert "(data-missing)" in folder.tell("run", code=3, module="kedro_hone")


def test_a_guest_publishes_a_winner_from_data_that_nothing_versions(team, template):
    shop = copy_project(template, team.root.parent)
    package = team.root / "src" / "team"
    shutil.copytree(shop.root / "src" / "shop" / "toolchain", package / "toolchain")
    (package / "adaptors.py").write_text(ADAPTORS)
    (package / "datasets.py").write_text(NUMPY)
    shutil.copytree(shop.root / "models", team.root / "models")
    (team.root / "data").mkdir()
    for name in ROWS:
        shutil.copy(shop.splits / f"{name}.npz", team.root / "data" / f"{name}.npz")
    paths = (option for name in ROWS for option in ("--data", f"{name}=data/{name}.npz"))
    team.tell("hone", "init", "models/matrix", *paths, "--yes")
    settings = package / "settings.py"
    lines = (
        "\nfrom hone_runtime.contract.catalogue import register\nfrom team import adaptors"
        "\nfrom kedro_hone.search import context\ncontext.share_of_others = lambda start: 0.01"
        "\nregister(*adaptors.ADAPTORS)\n"
    )
    settings.write_text(settings.read_text() + lines)
    base = team.root / "conf" / "base"
    base.joinpath("parameters.yml").write_text(json.dumps({"share": 0.5, "hone": shop.parameters}))
    catalog = yaml.safe_load((base / "catalog.yml").read_text())
    catalog["search"] = {"type": "team.datasets.ArraysDataset", "filepath": "data/search.npz"}
    base.joinpath("catalog.yml").write_text(json.dumps(catalog))

    team.environment[VARIABLE] = str(team.root / "result.json")
    team.tell("run", module="kedro_hone")
    assert read_result(team.root / "result.json").verdict == "PASS"
    evidence = team.evidence
    assert evidence["winner"]["candidate"] == FAST
    rows = {row["name"]: row for row in evidence["data"]}
    assert {name: row["path"] for name, row in rows.items()} == {name: f"data/{name}.npz" for name in ROWS}
    assert all(row["sha256"].startswith("sha256:") and not row["md5"] and not row["rev"] for row in rows.values())
    page = (team.work / "latest" / "report.html").read_text()
    assert page.count("not versioned</td>") == len(ROWS)
    assert "dvc add" in page
    tags = json.loads((team.root / "models" / "matrix-hone" / "1" / "hone.json").read_text())
    assert tags["hone.data.gate"] == f"not versioned: pinned by {rows['gate']['sha256']}"
    assert "won" in team.tell("hone", "routes", "--json", module="kedro_hone")
    team.tell("hone", "choose", FAST, module="kedro_hone")
    assert "made 0.5" in team.tell("run")
