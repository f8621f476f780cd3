"""Assess, look at the report, publish: the steps of one line in runs of their own, and the proof is the same."""

from __future__ import annotations

import json
import shutil
import signal

import numpy as np
import pytest
from small_project import FAST, Project, copy_project, write_source

from hone_runtime.learner.manifest import read_artifact
from hone_runtime.values.decision import Decision

PROGRAM = "likeness.py"
KILLED = """

import os
import signal


class Killed:
    @hook_impl
    def after_dataset_saved(self, dataset_name):
        if dataset_name == "version":
            os.kill(os.getpid(), signal.SIGKILL)


HOOKS = (*HOOKS, Killed())
"""
FILES = ("evidence.json", "golden.json", "report.html", "report.md", "timings.npz")


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


def assert_same(first, second):
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
        assert "does not contain it, or contains a damaged copy" in " ".join(done.output.split()), (name, damage)
        assert list_published(assessed) == []
        assert not (run / "publication.json").exists()
        (sealed / name).write_bytes(content)
    for name, damage in (("evidence.json", "removed"), ("timings.npz", "altered")):
        damage_file(sealed / name, damage)
    assessed.run("--nodes", "gate.report")  # as the hint says
    assessed.run("--pipelines", "publish")
    assert len(list_published(assessed)) == 1


@pytest.mark.attack(
    what="a copy of the report that was edited before the approval",
    who="store",
    stopped_by="published is what the gate wrote",
)
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
    assert first["counts"]["builds"] == len(first["steps"]) == 6
    assessed.run("--nodes", "gate.report")
    assert_same(first, assessed.evidence)
    latest = (assessed.work / "latest").resolve()
    assert latest != run
    assert (latest / "timings.npz").read_bytes() == (run / "timings.npz").read_bytes()
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    assert json.loads((place / "evidence" / "evidence.json").read_text()) == assessed.evidence


@pytest.mark.nightly
def test_builds_and_validations_that_are_run_again_change_nothing(assessed):
    first = assessed.evidence
    assessed.run("--pipelines", "build", "--nodes", f"build.{FAST}.compile,build.tensorflow.convert")
    assessed.run(
        "--pipelines", "compare", "--nodes", f"build.{FAST}.validate,build.tensorflow.shop_round.shop_fast.validate"
    )
    assessed.run("--nodes", "gate.report")
    assert_same(first, assessed.evidence)
    assessed.run("--pipelines", "compare", "--from-nodes", "build.gather")
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
    for pipeline, namespace in (("build", "build.tensorflow.shop_round"), ("compare", "build.tensorflow.shop_round")):
        assessed.run("--pipelines", pipeline, "--namespaces", namespace)
    assessed.run("--nodes", "gate.report")
    assert_same(first, assessed.evidence)


def test_a_store_that_was_emptied_is_said(assessed):
    shutil.rmtree(assessed.work / "store" / "objects")
    done = assessed.run("--pipelines", "compare", "--from-nodes", "gate.gate", code=3)
    assert "hone explain store-missing" in done.output
    assert json.loads((assessed.work / "work" / "source.json").read_text())["digest"] in done.output


def test_a_gate_alone_changes_nothing_that_was_measured(assessed):
    """It scores with the code that prepared the samples, whatever became of the file since."""
    first = assessed.evidence
    (assessed.root / PROGRAM).write_text("raise RuntimeError('this is not what prepared the samples')\n")
    assessed.run("--pipelines", "compare", "--from-nodes", "gate.gate")
    assert_same(first, assessed.evidence)


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


@pytest.mark.parametrize("command", [("--nodes", "gate.report"), ("--pipelines", "publish")])
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


@pytest.mark.nightly
def test_a_decision_after_the_report_is_reported_again_before_it_is_published(assessed):
    assessed.run("--nodes", "confirm,gate.gate")
    done = assessed.run("--pipelines", "publish", code=3)
    assert "hone explain evidence-incomplete" in done.output
    assert "The gates were run again" in done.output
    assessed.run("--nodes", "gate.report")
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    published = json.loads((place / "hone.json").read_text())
    assert str(assessed.evidence["speedup"]["ratio"]["estimate"]) in json.dumps(published)


def edit(project, name, **changes):
    """Change a value that the catalog keeps, and return it."""
    path = project.work / "work" / f"{name}.json"
    value = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(value))
    return value


def assert_refused(project, *command, value, slug="value-outdated"):
    done = project.run(*command, code=3)
    assert f"hone explain {slug}" in done.output
    assert value in done.output
    assert list_published(project) == []


@pytest.mark.nightly
def test_a_confirmation_of_another_race_decides_nothing(assessed):
    """As after a run that was killed while it confirmed: the candidate of that name is three times as slow now."""
    adaptors = assessed.root / "src" / "shop" / "adaptors.py"
    text = adaptors.read_text()
    assert "default=0.02" in text
    adaptors.write_text(text.replace("default=0.02", "default=3.0"))
    assessed.run("--to-nodes", "race.race")
    assert_refused(assessed, "--from-nodes", "gate.gate", value="'confirmation'")


def test_a_pull_that_was_killed_between_its_values_gives_nobody_elses_winner(assessed):
    write_source(assessed.root / "models" / "other", seed=7)
    settings = assessed.root / "src" / "shop" / "settings.py"
    text, uri = settings.read_text(), assessed.parameters["model"]["uri"]
    settings.write_text(text + KILLED)
    assessed.set(model={"uri": "models/other"})
    assert assessed.call("run", "--pipelines", "pull").code == -signal.SIGKILL
    settings.write_text(text)
    assert json.loads((assessed.work / "work" / "version.json").read_text())["uri"] == "models/other"
    assert_refused(assessed, "--pipelines", "compare", value="'source'")
    assessed.set(model={"uri": uri})
    assert_refused(assessed, "--nodes", "gate.report", value="'version'")
    assert_refused(assessed, "--pipelines", "publish", value="'version'")


def test_what_one_recipe_built_is_not_compared_or_published_by_another(assessed):
    known = assessed.parameters
    for change in (
        {"model": {"uri": "models/other"}},
        {"shapes": {"eight": {"batch": 64}}},
        {"adaptors": {"shop.fast": {"options": {"slow": 0.5}}}},
        {"calibration_rows": 7},
        {"threads": 2},
    ):
        assessed.parameters = {**known, **change}
        assert_refused(assessed, "--pipelines", "compare", value=f"hone.{next(iter(change))}")


def test_a_decision_of_another_confirmation_is_not_reported(assessed):
    assessed.run("--nodes", "confirm")
    assert_refused(assessed, "--nodes", "gate.report", value="'decision'")


def test_a_decision_that_contradicts_what_was_measured_is_not_reported(assessed):
    outcome = json.loads((assessed.work / "work" / "source.shop_slow.outcome.json").read_text())
    edit(assessed, "decision", winner="source.shop_slow", artifact=outcome)
    assert_refused(
        assessed, "--nodes", "gate.report", value="source.shop_slow is not a finalist", slug="evidence-incomplete"
    )
    assessed.run("--pipelines", "compare", "--from-nodes", "gate.gate")  # as the hint says
    assessed.run("--pipelines", "publish")
    assert len(list_published(assessed)) == 1


def test_what_is_said_of_a_publication_is_what_its_evidence_says(assessed):
    decision = json.loads((assessed.work / "work" / "decision.json").read_text())
    decision["speedup"]["ratio"] |= {"estimate": 999.0, "low": 998.0, "high": 1000.0}
    edit(assessed, "decision", **decision)
    edit(assessed, "evidence_folder", decision=Decision.model_validate(decision).identity)
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    tags = json.loads((place / "hone.json").read_text())
    assert tags["hone.speedup"] == f"{assessed.evidence['speedup']['ratio']['estimate']:.3f}"


def test_a_gate_with_another_limit_is_asked_again_alone(assessed):
    """Nothing that was measured depends on it."""
    first = assessed.evidence
    assessed.set(gates={"size_mb": 1000.0})
    assert_refused(assessed, "--pipelines", "publish", value="'decision'")
    assessed.run("--pipelines", "compare", "--from-nodes", "gate.gate")
    assessed.run("--pipelines", "publish")
    (place,) = list_published(assessed)
    second = json.loads((place / "evidence" / "evidence.json").read_text())
    assert second["recipe"]["gates"]["size_mb"] == 1000.0
    assert {gate["name"] for gate in second["gates"]} == {gate["name"] for gate in first["gates"]} | {"size_mb"}
    assert second["confirmation"] == first["confirmation"]


@pytest.mark.nightly
def test_a_winner_waits_for_its_alias_the_first_time(assessed, tmp_path):
    assessed.environment["HONE_RESULT"] = str(tmp_path / "result.json")
    assessed.set(publish={"approval": "first"})
    assert (
        "waits for approval: `kedro-hone approve models/matrix-hone/1`" in assessed.run("--pipelines", "publish").output
    )
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["awaits"], result["published"]) == ("honed", "models/matrix-hone/1")
    alias = assessed.root / "models" / "matrix-hone" / "honed"
    assert not alias.exists()
    place = assessed.root / "models" / "matrix-hone" / "1" / "evidence" / "report.md"
    proof = place.read_bytes()
    damage_file(place, "removed")
    refused = assessed.call("hone", "approve", "models/matrix-hone/1")
    assert (refused.code, alias.exists()) == (3, False)
    assert "evidence-incomplete" in refused.output
    place.write_bytes(proof)
    done = assessed.call("hone", "approve", "models/matrix-hone/1")
    assert (done.code, alias.resolve().name) == (0, "1"), done.output
    assert "approval-unneeded" in assessed.call("hone", "approve", "models/matrix").output

    assessed.set(seed=7)
    assessed.run()
    assert alias.resolve().name == "2"  # from the second one on nobody is asked
