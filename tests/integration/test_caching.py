"""What is known is not done again; what was changed is, and nothing else. Measuring is never taken from the store."""

from __future__ import annotations

import json

import pytest
from small_project import copy_project

from hone_runtime.values.manifest import read_sealed


@pytest.fixture(scope="module")
def project(unpublished, tmp_path_factory):
    """One project for all tests of this module, which build on each other."""
    return copy_project(unpublished, tmp_path_factory.mktemp("caching"))


def read_counts(project):
    return tuple(project.evidence["counts"][name] for name in ("builds", "validations"))


def test_a_first_run_does_everything(project):
    assert read_counts(project) == (6, 3)


def test_a_second_run_builds_and_validates_nothing_but_measures_again(project):
    first = project.evidence
    project.run("--pipelines", "assess")
    second = project.evidence
    assert read_counts(project) == (0, 0)
    assert second["run_id"] != first["run_id"]
    assert second["counts"]["launches"] > 0
    assert second["confirmation"]["launches"] > 0
    assert second["race"]["seconds"] != first["race"]["seconds"]
    # Who wins is measured again, and may change where two are as fast; what there is to win may not.
    assert [one["id"] for one in second["candidates"]] == [one["id"] for one in first["candidates"]]
    # The source stands among the candidates; it is validated as the reference, and has no flag of its own.
    measured = [one for one in second["candidates"] if one["status"] == "measured" and one["route"]]
    assert measured
    assert all(one["cached"] for one in measured)


def test_an_option_of_one_adaptor_builds_only_the_routes_through_it(project):
    before = project.read_outcomes()
    project.set(adaptors={"shop.round": {"options": {"slow": 6.0}}})
    project.run("--pipelines", "assess")
    after = project.read_outcomes()
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"tensorflow.shop_round", "tensorflow.shop_round.shop_fast"}
    assert read_counts(project) == (2, 1)


def test_back_to_the_option_before_nothing_is_built(project):
    project.set(adaptors={})
    project.run("--pipelines", "pull,build")
    events = [
        json.loads(line) for path in project.runs[-1].glob("events.jsonl") for line in path.read_text().splitlines()
    ]
    assert [event for event in events if event["event"] == "build"] == []


def test_another_worker_file_builds_everything_again(project):
    worker = project.root / "src" / "shop" / "toolchain" / "worker" / "__init__.py"
    worker.write_text(worker.read_text() + "\n# another version\n")
    project.run("--pipelines", "pull,build")
    text = (project.runs[-1] / "events.jsonl").read_text()
    assert text.count('"event": "build"') == 6


def test_a_damaged_artifact_is_made_again(project):
    outcome = project.read_outcomes()["source.shop_fast"]
    place = project.store.root / "objects" / outcome["digest"].removeprefix("sha256:") / "files"
    place.chmod(0o755)
    (place / "weights.npz").chmod(0o644)
    (place / "weights.npz").write_bytes(b"cut short")
    project.run("--pipelines", "pull,build")
    assert project.read_outcomes()["source.shop_fast"]["digest"] == outcome["digest"]
    assert read_sealed(project.store.root / "objects" / outcome["digest"].removeprefix("sha256:"))
