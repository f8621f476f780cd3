"""Assess, look at the report, publish: the steps of one line in runs of their own, and the proof is the same."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from small_project import FAST, Project, copy_project, write_source

from kedro_hone.learner.manifest import read_artifact

PROGRAM = "likeness.py"
FILES = ("evidence.json", "report.html", "report.md", "timings.npz")


@pytest.fixture
def assessed(unpublished, tmp_path) -> Project:
    """A project of the test's own, whose winner waits to be published."""
    return copy_project(unpublished, tmp_path)


def list_published(project):
    return sorted({path.parent.resolve() for path in project.root.rglob("*-hone/*/hone.json")})


def read_files(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


def find_sealed(project):
    """Return the folder of the store that holds the evidence of a project's only report."""
    (sealed,) = (project.work / "store" / "trees").glob("*/files/evidence.json")
    return sealed.parent


def damage_file(path, damage):
    if damage == "removed":
        path.unlink()
        return
    content = path.read_bytes()
    path.chmod(0o644)
    if damage == "longer":
        path.write_bytes(content + b"\0")
    else:
        path.write_bytes(content.replace(b"PASS", b"KEEP") if b"PASS" in content else content[:-1] + b"\1")
        assert path.read_bytes() != content


def compare(first, second):
    """Assert that two runs tell the same story: all but who tells it, and when."""
    own = {"run_id", "created", "winner"}
    assert {k: v for k, v in second.items() if k not in own} == {k: v for k, v in first.items() if k not in own}
    assert second["winner"] | {"path": ""} == first["winner"] | {"path": ""}
    assert second["run_id"] != first["run_id"]


def test_what_was_assessed_is_published_with_all_its_proof(assessed):
    (run,) = assessed.runs
    proof = read_files(run)
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    assert sorted(path.name for path in (place / "evidence").iterdir()) == sorted(FILES)
    assert read_files(place / "evidence") == proof
    # What is written about the publication stands where the report is.
    assert assessed.runs == [run]
    assert json.loads((run / "publication.json").read_text())["uri"] == "models/matrix-hone/1"
    assert "models/matrix-hone/1" in (run / "report.html").read_text()
    assert "publication" in {json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()}
    # To publish again changes nothing.
    reported, publications = read_files(run), (assessed.work / "work" / "publications.json").read_text()
    assessed.run("--pipelines", "publish")
    assert list_published(assessed) == [place]
    assert (assessed.work / "work" / "publications.json").read_text() == publications
    assert read_files(run) == reported


def test_without_whole_and_unmodified_proof_nothing_is_registered(assessed):
    """The proof is in the store; the copies in the run's folder are whole here, and prove nothing."""
    (run,) = assessed.runs
    sealed = find_sealed(assessed)
    cases = [*((name, "altered") for name in FILES), ("evidence.json", "removed"), ("timings.npz", "longer")]
    for name, damage in cases:
        content = (sealed / name).read_bytes()
        damage_file(sealed / name, damage)
        done = assessed.run("--pipelines", "publish", code=3)
        assert "hone explain evidence-incomplete" in done.output
        assert "does not hold it, or holds it damaged" in " ".join(done.output.split()), (name, damage)
        assert list_published(assessed) == []
        assert not (run / "publication.json").exists()
        (sealed / name).write_bytes(content)
    for name, damage in (("evidence.json", "removed"), ("timings.npz", "altered")):
        damage_file(sealed / name, damage)
    assessed.run("--nodes", "report")  # as the hint says
    assessed.run("--pipelines", "publish")
    assert len(list_published(assessed)) == 1


@pytest.mark.parametrize("damage", ["removed", "altered"])
def test_copies_of_the_proof_are_for_people_and_not_published(assessed, damage):
    (run,) = assessed.runs
    proof = read_files(run)
    for name in FILES:
        damage_file(run / name, damage)
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    assert read_files(place / "evidence") == proof
    for name in ("evidence.json", "timings.npz"):
        assert (run / name).read_bytes() == proof[name]


def test_proof_of_another_decision_is_none(assessed):
    decision = assessed.work / "work" / "decision.json"
    other = json.loads(decision.read_text())
    other["artifact"]["digest"] = f"sha256:{'0' * 64}"
    decision.write_text(json.dumps(other))
    done = assessed.run("--pipelines", "publish", code=3)
    assert "hone explain evidence-incomplete" in done.output
    assert list_published(assessed) == []


def test_a_run_whose_folder_was_removed_is_published_and_has_a_folder_again(assessed):
    (run,) = assessed.runs
    proof = read_files(run)
    shutil.rmtree(run)
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    assert read_files(place / "evidence") == proof
    assert assessed.runs == [run]
    assert "models/matrix-hone/1" in (run / "report.html").read_text()
    assert (run / "evidence.json").read_bytes() == proof["evidence.json"]
    assert read_artifact(run / "winner").digest == assessed.evidence["winner"]["digest"]


def test_the_report_alone_is_the_report_of_the_full_run(assessed):
    (run,) = assessed.runs
    first = assessed.evidence
    assert first["counts"]["builds"] == len(first["steps"]) == 8
    assessed.run("--nodes", "report")
    compare(first, assessed.evidence)
    latest = (assessed.work / "latest").resolve()
    assert latest != run
    assert (latest / "timings.npz").read_bytes() == (run / "timings.npz").read_bytes()
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    assert json.loads((place / "evidence" / "evidence.json").read_text()) == assessed.evidence


def test_builds_and_validations_that_are_run_again_change_nothing(assessed):
    first = assessed.evidence
    assessed.run("--pipelines", "build", "--nodes", f"{FAST}.compile,tensorflow.convert")
    assessed.run("--pipelines", "compare", "--nodes", f"{FAST}.validate,tensorflow.shop_half.validate")
    assessed.run("--nodes", "report")
    compare(first, assessed.evidence)
    assessed.run("--pipelines", "compare", "--from-nodes", "race")
    second = assessed.evidence
    assert second["steps"] == first["steps"]
    for same in ("builds", "validations"):
        assert second["counts"][same] == first["counts"][same], same
    for same in ("build", "validate"):
        assert second["phase_seconds"][same] == first["phase_seconds"][same], same
    for one, other in zip(first["candidates"], second["candidates"], strict=True):
        for same in ("id", "build_seconds", "cached", "quality"):
            assert one[same] == other[same], same


def test_one_namespace_alone_changes_nothing(assessed):
    """From what is kept of a full run, in a project that was moved since."""
    first = assessed.evidence
    for pipeline, namespace in (("build", "tensorflow.shop_round"), ("compare", "tensorflow.shop_round")):
        assessed.run("--pipelines", pipeline, "--namespaces", namespace)
    assessed.run("--nodes", "report")
    compare(first, assessed.evidence)


def test_a_store_that_was_emptied_is_said(assessed):
    shutil.rmtree(assessed.work / "store" / "objects")
    done = assessed.run("--pipelines", "compare", "--from-nodes", "gate", code=3)
    assert "hone explain store-missing" in done.output
    assert json.loads((assessed.work / "work" / "source.json").read_text())["digest"] in done.output


def test_a_gate_alone_changes_nothing_that_was_measured(assessed):
    """It scores with the code that prepared the samples, whatever became of the file since."""
    first = assessed.evidence
    (assessed.root / PROGRAM).write_text("raise RuntimeError('this is not what prepared the samples')\n")
    assessed.run("--pipelines", "compare", "--from-nodes", "gate")
    compare(first, assessed.evidence)


def test_a_confirmation_alone_keeps_the_race(assessed):
    (run,) = assessed.runs
    first = assessed.evidence
    assessed.run("--pipelines", "compare", "--from-nodes", "confirm")
    second = assessed.evidence
    for same in ("steps", "race", "candidates", "counts", "source", "data"):
        assert second[same] == first[same], same
    assert second["phase_seconds"]["build"] == first["phase_seconds"]["build"] > 0
    assert second["phase_seconds"]["validate"] == first["phase_seconds"]["validate"] > 0
    with np.load(run / "timings.npz") as before, np.load(assessed.work / "latest" / "timings.npz") as after:
        assert set(after.files) == set(before.files)
        np.testing.assert_array_equal(after["race/source/eight"], before["race/source/eight"])
        assert f"confirm/{FAST}/eight" in after.files
        assert not np.array_equal(after["confirm/source/eight"], before["confirm/source/eight"])


def test_candidates_of_another_model_are_not_compared_with_this_one(assessed):
    (assessed.root / "models" / "other").mkdir()
    write_source(assessed.root / "models" / "other", slow=30.0)
    assessed.set(model={"uri": "models/other"})
    assessed.run("--pipelines", "pull")
    done = assessed.run("--pipelines", "compare", code=3)
    assert "hone explain value-outdated" in done.output
    assert ".outcome'" in done.output
    assert list_published(assessed) == []


@pytest.mark.parametrize("command", [("--nodes", "report"), ("--pipelines", "publish")])
def test_a_decision_by_another_recipe_is_neither_reported_nor_published(assessed, command):
    assessed.set(gates={"drop": 1e-9})
    done = assessed.run(*command, code=3)
    assert "hone explain value-outdated" in done.output
    assert "'decision'" in done.output or "'race'" in done.output
    assert list_published(assessed) == []


def test_where_it_is_published_may_change_after_the_verdict(assessed):
    assessed.set(publish={"name": "elsewhere"})
    assessed.run("--pipelines", "publish")
    assert len(list_published(assessed)) == 1


def test_a_decision_after_the_report_is_reported_again_before_it_is_published(assessed):
    assessed.run("--nodes", "confirm,gate")
    done = assessed.run("--pipelines", "publish", code=3)
    assert "hone explain evidence-incomplete" in done.output
    assert "The gates were asked again" in done.output
    assessed.run("--nodes", "report")
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    published = json.loads((place / "hone.json").read_text())
    assert str(assessed.evidence["speedup"]["ratio"]["estimate"]) in json.dumps(published)
