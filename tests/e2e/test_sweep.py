"""Published winners whose search is out of date are searched again, and replaced only by what beats them."""

from __future__ import annotations

import json

import pytest
from listener import write_rules
from small_project import copy_project


@pytest.fixture
def project(finished, tmp_path):
    """A project whose winner is published, and whose rules take every model."""
    project = copy_project(finished, tmp_path)
    write_rules(project, {"name": "all", "models": "*"}, secrets={})
    return project


def sweep(project, *arguments):
    done = project.call("hone", "sweep", "--registry", "models", *arguments)
    assert done.code == 0, done.output
    return done.output


def age(project, **tags):
    """Let the published version say something else of how it was found."""
    path = project.root / "models" / "matrix-hone" / "1" / "hone.json"
    said = json.loads(path.read_text())
    said |= {f"hone.{name}": value for name, value in tags.items()}
    path.chmod(0o644)
    path.write_text(json.dumps(said))


@pytest.mark.nightly
def test_what_is_out_of_date_runs_once_and_keeps_what_is_published(project):
    assert "0 out of date" in sweep(project)
    age(project, toolset="shop=older", machine="another")
    assert "changed: toolchains: shop and the machine" in sweep(project, "--dry-run")
    said = sweep(project)
    assert "1 out of date; 1 to run now" in said
    assert "done KEEP the" not in said
    assert "models/matrix: done KEEP" in said
    assert project.evidence["reasons"][-1] == "honed points to the winner already"
    assert "1 out of date; 0 to run now" in sweep(project)
    assert not (project.root / "models" / "matrix-hone" / "2").exists()


def test_models_that_no_rule_names_are_left_alone(project):
    write_rules(project, {"name": "others", "models": "fraud-*"}, secrets={})
    age(project, toolset="shop=older")
    assert "no rule in listen.yml names its source" in sweep(project)
