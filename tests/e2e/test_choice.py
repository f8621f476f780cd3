"""Another candidate of a finished search is confirmed, gated and published, and nothing is built or raced again."""

from __future__ import annotations

import json

import pytest
from small_project import copy_project


def test_a_choice_is_published_with_evidence_of_its_own(finished, tmp_path):
    project = copy_project(finished, tmp_path)
    first = project.evidence
    assert first["choice"] is None
    raced = [one for one in first["candidates"] if one["speedup"] and one["route"]]
    name = max(
        (one for one in raced if one["id"] != first["winner"]["candidate"]), key=lambda one: one["speedup"]["estimate"]
    )["id"]
    objects = sorted(path.name for path in (project.work / "store" / "objects").iterdir())

    done = project.call("hone", "choose", name)

    assert done.code == 0, done.output
    evidence = project.evidence
    assert (evidence["verdict"], evidence["winner"]["candidate"]) == ("PASS", name)
    assert evidence["run_id"] != first["run_id"]
    assert evidence["choice"]["number"] == 1
    assert evidence["choice"]["confidence"] == 0.975
    assert {one["confidence"] for one in (speedup["ratio"] for speedup in evidence["speedups"])} == {0.975}
    assert {one["drop"]["confidence"] for one in evidence["quality"]} == {0.975}
    assert [one["id"] for one in evidence["confirmation"]["finalists"]] == [name]
    assert any("was chosen by a person" in reason for reason in evidence["reasons"])
    assert sorted(path.name for path in (project.work / "store" / "objects").iterdir()) == objects
    published = json.loads((project.work / "latest" / "publication.json").read_text())
    verified = project.call("hone", "verify", published["uri"])
    assert verified.code == 0, verified.output

    wrong = project.call("hone", "choose", f"{name}s")
    assert wrong.code == 3
    assert "hone explain candidate-unknown" in wrong.output
    assert name in wrong.output


@pytest.mark.nightly
def test_a_choice_is_of_the_recipe_that_its_race_was_run_with(finished, tmp_path):
    """Its values were those of another recipe than the project's files have, and were refused."""
    project = copy_project(finished, tmp_path)
    project.run("--params", "hone.seed=7")
    raced = [one for one in project.evidence["candidates"] if one["speedup"] and one["route"]]
    raced = [one for one in raced if one["id"] != project.evidence["winner"]["candidate"]]
    name = max(raced, key=lambda one: one["speedup"]["estimate"])["id"]
    done = project.call("hone", "choose", name)
    assert done.code == 0, done.output
    assert project.evidence["recipe"]["seed"] == 7
    assert project.evidence["winner"]["candidate"] == name
