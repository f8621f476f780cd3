"""The whole line by the real command line: from a model in its registry to every verdict there is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import jsonschema
import numpy as np
import pytest
from small_project import FAST, ROWS, copy_project

from kedro_hone.report.schema import SCHEMA_FILE

SHORT = {"shop.convert": {"enabled": False}, "shop.slow": {"enabled": False}}
"""Leaves the routes that start at the source itself."""

LOAD = """
import json, sys
import numpy as np
import shop.settings  # the runtime is the project's own
import kedro_hone
model = kedro_hone.load(sys.argv[1])
x = np.load(sys.argv[2])["x"]
print(json.dumps(np.asarray(model(x)).tolist()))
"""


def check_evidence(project):
    """Assert that the evidence keeps its schema and that the reports are there; return the evidence."""
    latest = project.work / "latest"
    assert latest.resolve() == project.runs[-1].resolve()
    evidence = project.evidence
    jsonschema.validate(evidence, json.loads(SCHEMA_FILE.read_text()))
    assert evidence["run_id"] == project.runs[-1].name
    assert "<html" in (latest / "report.html").read_text()
    assert evidence["verdict"] in (latest / "report.md").read_text()
    return evidence


def list_published(project):
    return sorted({path.parent.resolve() for path in project.root.rglob("*-hone/*/hone.json")})


def test_a_faster_candidate_passes_and_is_published(finished):
    said = " ".join(finished.first.output.split())
    assert "PASS" in said
    assert "refused shop.closed (toy-source): it is closed on Mondays" in said
    assert re.search(r"built shop.fast in [0-9.]+ s \(toy-source → shop.convert → shop.round\)", said)
    assert "confirm 1 finalist, in 3 launches" in said
    assert "launched 2 of 3 in" in said
    assert "confirmed 3 launches: all decided" in said
    evidence = check_evidence(finished)
    assert (evidence["verdict"], evidence["winner"]["candidate"]) == ("PASS", FAST)
    assert evidence["speedup"]["ratio"]["low"] > 1.05
    assert evidence["confirmation"]["launches"] == 3
    with np.load(finished.work / "latest" / "timings.npz") as samples:
        assert {"race/source/eight", f"confirm/{FAST}/eight"} <= set(samples.files)
    done = {"builds": 6, "validations": 3, "reused_failures": 0}
    assert evidence["counts"] == done | {"launches": evidence["counts"]["launches"]}
    known = {(row["id"], row["counts"]) for row in evidence["operators"]}
    assert known == {("source", None), (FAST, None)}, "its runtime cannot list them"
    assert {row["name"]: row["n"] for row in evidence["data"]} == ROWS
    assert finished.candidate("source.shop_closed")["reason"] == "shop.closed: it is closed on Mondays"
    assert "the same artifact as source.shop_fast" in finished.candidate("tensorflow.shop_fast")["reason"]


def test_the_reported_speedup_is_that_of_the_recorded_times_paired_by_rounds(finished):
    rounds = finished.evidence["recipe"]["confirm"]["rounds"]
    with np.load(finished.work / "latest" / "timings.npz") as samples:

        def read(name, shape, launches):
            ends = samples[f"confirm/{name}/{shape}/calls"].cumsum()[:-1]
            medians = [np.median(calls) for calls in np.split(samples[f"confirm/{name}/{shape}"], ends)]
            return np.reshape(medians[: launches * rounds], (launches, rounds))

        speedups = finished.evidence["speedups"]
        assert speedups
        for reported in speedups:
            # The source is launched as long as any finalist is undecided: perhaps more often than the winner.
            source, winner = (read(name, reported["shape"], reported["launches"]) for name in ("source", FAST))
            launches = np.median(np.log(source / winner), axis=1)
            assert reported["ratio"]["estimate"] == pytest.approx(np.exp(launches.mean()))


def test_what_was_published_loads_and_answers_as_the_source_did(finished):
    publication = json.loads((finished.work / "latest" / "publication.json").read_text())
    (place,) = list_published(finished)
    uri = place.relative_to(finished.root).as_posix()
    assert publication == {"uri": uri, "version": "1", "alias": "honed", "note": "", "signer": "", "awaits": ""}
    assert place.parent == finished.root / "models" / "matrix-hone"
    assert (place.parent / "honed").resolve() == place
    gate = finished.splits / "gate.npz"
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(place.parent / "honed"), str(gate)],
        cwd=finished.root,
        env=finished.variables | {"PYTHONPATH": f"{finished.variables['PYTHONPATH']}:{finished.root / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(gate) as split:
        np.testing.assert_allclose(json.loads(done.stdout), split["answers"], rtol=1e-5)


def test_a_winner_that_computes_something_else_gives_way_to_its_source(finished, tmp_path):
    shutil.copytree(finished.root / "models", tmp_path / "models", symlinks=True)
    place = tmp_path / "models" / "matrix-hone" / "1"
    golden = json.loads((place / "evidence" / "golden.json").read_text())
    assert golden["inputs"]["x"]["shape"] == [1, 4]
    golden["outputs"] = {
        name: array | {"data": golden["inputs"]["x"]["data"][:16]} for name, array in golden["outputs"].items()
    }
    (place / "evidence" / "golden.json").write_text(json.dumps(golden))
    (place / "hone-files.json").unlink()  # as a version of the time before: else the other file is found first
    tags = json.loads((place / "hone.json").read_text())
    del tags["hone.files"]
    (place / "hone.json").write_text(json.dumps(tags))
    gate = finished.splits / "gate.npz"
    done = subprocess.run(
        [sys.executable, "-c", f"{LOAD}print(model.fallback_reason, model.source_uri)", str(place), str(gate)],
        cwd=tmp_path,
        env=finished.variables | {"PYTHONPATH": f"{finished.variables['PYTHONPATH']}:{finished.root / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *log, found, why = done.stdout.splitlines()
    assert "The winner's outputs here differ" in " ".join(" ".join(log).split())
    assert re.fullmatch(r"Its output y differs by [0-9.]+ of its largest value; 0\.001 is allowed\. models/matrix", why)
    with np.load(gate) as split:
        np.testing.assert_allclose(json.loads(found), split["answers"], rtol=1e-5)


def test_the_proof_is_published_with_the_winner(finished):
    (place,) = list_published(finished)
    tags = json.loads((place / "hone.json").read_text())
    assert tags["hone.verdict"] == "PASS"
    assert tags["hone.source_digest"] == finished.evidence["source"]["digest"]
    assert tags["hone.run"] == finished.evidence["run_id"]
    assert json.loads((place / "evidence" / "evidence.json").read_text()) == finished.evidence


def test_when_nothing_is_faster_the_source_stays_and_that_is_a_success(project):
    project.set(adaptors=SHORT | {"shop.fast": {"options": {"slow": 5.0}}})
    done = project.run(code=0)
    assert "KEEP" in done.output
    assert "the source model stays" in done.output
    evidence = check_evidence(project)
    assert (evidence["verdict"], evidence["winner"]) == ("KEEP", None)
    assert list_published(project) == []
    assert not (project.work / "latest" / "publication.json").exists()


def test_a_wrong_candidate_is_dropped_however_fast_it_is(project):
    project.set(adaptors=SHORT | {"shop.fast": {"options": {"wrong": True}}})
    project.set(gates={"require_improvement": True})
    done = project.run(code=10)
    assert "the recipe requires an improvement" in done.output
    assert check_evidence(project)["verdict"] == "FAIL"
    wrong = project.candidate(FAST)
    assert wrong["status"] == "dropped"
    assert "cosine_similarity on the search split fell from 1.0000 to 0.0000" in wrong["reason"]
    assert list_published(project) == []


def test_a_winner_that_misses_an_absolute_gate_fails(project):
    project.set(adaptors=SHORT, gates={"latency_ms": {"eight": 0.001}})
    done = project.run(code=10)
    assert "where 0.001 ms is allowed" in done.output
    evidence = check_evidence(project)
    assert (evidence["verdict"], evidence["winner"]) == ("FAIL", None)
    gates = {row["name"]: row["judgement"] for row in evidence["gates"] if row["candidate"] == FAST}
    assert gates == {"other_load": "holds", "speedup": "holds", "drop": "holds", "latency_ms": "fails"}
    assert "where 0.001 ms is allowed" in (project.work / "latest" / "report.html").read_text()
    assert list_published(project) == []


@pytest.mark.nightly
def test_too_few_rows_to_tell_is_inconclusive(project):
    project.write_splits(gate=25)
    project.track()
    regression = {"name": "tabular-regression", "options": {"arrays": {"target": "answers"}}}
    project.set(
        adaptors=SHORT, program={**regression, "metric": "root_mean_squared_error"}
    )  # of r2 it would be refused
    done = project.run(code=11)
    assert "25 gate rows probably cannot prove a drop" in " ".join(done.output.split())
    assert "the gate split has too few rows to show" in done.output
    assert check_evidence(project)["verdict"] == "INCONCLUSIVE"
    assert list_published(project) == []


@pytest.mark.nightly
def test_what_was_confirmed_on_a_busy_machine_is_published_only_where_the_recipe_allows_it(project):
    project.environment["SHOP_LOAD"] = ""  # it is measured
    project.set(adaptors=SHORT, gates={"other_load": 0.1})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        done = project.run(code=11)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert "speeds that were measured on a busy machine prove nothing" in " ".join(done.output.split())
    before = check_evidence(project)
    assert [one["verdict"] for one in before["confirmation"]["finalists"]] == ["yes"]
    assert (before["verdict"], before["winner"]) == ("INCONCLUSIVE", None)
    assert list_published(project) == []
    project.set(gates={"other_load": 1})
    project.run("--from-nodes", "gate.gate", code=0)
    after = check_evidence(project)
    assert (after["verdict"], after["confirmation"]["launches"]) == ("PASS", before["confirmation"]["launches"])
    assert after["confirmation"]["other_load"] == before["confirmation"]["other_load"] > 0.1
    assert len(list_published(project)) == 1


def find_alias(project):
    return [path.resolve().name for path in project.root.rglob("*-hone/honed")]


def test_under_load_no_alias_moves_whatever_the_recipe_says(finished, tmp_path):
    """What is faster under load may be slower without it: it waits, and the next quiet run completes it."""
    project = copy_project(finished, tmp_path)
    before = find_alias(project)
    project.environment["SHOP_LOAD"] = "0.6"
    said = "until `kedro-hone run --from-nodes confirm` confirms it on a quiet machine"

    busy = project.run("--from-nodes", "confirm")

    evidence = check_evidence(project)
    assert evidence["verdict"] == "PASS"
    assert any(said in reason for reason in evidence["reasons"])
    assert said in " ".join(busy.output.split())
    publication = json.loads((project.work / "latest" / "publication.json").read_text())
    assert publication["alias"] is None
    assert said in publication["note"]
    assert find_alias(project) == before
    waiting = [place.name for place in list_published(project) if "hone.held" in (place / "hone.json").read_text()]
    assert waiting == [publication["version"]]

    project.environment["SHOP_LOAD"] = "0.25"
    project.run("--from-nodes", "confirm")

    assert not any(said in reason for reason in check_evidence(project)["reasons"])
    (now,) = find_alias(project)
    assert now not in {*before, publication["version"]}


def test_a_candidate_twice_as_slow_is_dropped_early_and_the_report_says_when(finished):
    slow = finished.candidate("source.shop_slow")
    assert slow["status"] == "dropped"
    assert slow["rounds"] in {3, 6}
    assert slow["reason"].startswith(f"dropped after {slow['rounds']} rounds: 0.")
    assert f"after {slow['rounds']} rounds" in (finished.work / "latest" / "report.html").read_text()
    assert slow["id"] not in {finalist["id"] for finalist in finished.evidence["confirmation"]["finalists"]}


def test_assess_follows_the_command_line_and_publishes_nothing(project):
    (project.root / "conf" / "strict").mkdir()
    (project.root / "conf" / "strict" / "parameters.yml").write_text("hone: {gates: {drop: 0.2}}")
    project.set(adaptors=SHORT)
    done = project.run("--pipelines", "assess", "--env", "strict", "--params", "hone.gates.speedup=1.5")
    assert "PASS" in done.output
    gates = check_evidence(project)["recipe"]["gates"]
    assert (gates["drop"], gates["speedup"]) == (0.2, 1.5)
    assert list_published(project) == []


@pytest.mark.nightly
def test_a_spent_budget_points_at_what_was_not_tried_only_where_there_is_some(project):
    project.set(adaptors=SHORT, race={"seconds": 0.001})
    done = project.run("--pipelines", "assess")
    assert check_evidence(project)["race"]["other_load"] is not None
    assert "not tried" not in done.output
    assert "budget" not in " ".join(project.evidence["reasons"])
    project.set(race={"memory_mb": 1}, adaptors={"shop.slow": {"enabled": True}})  # one worker in each heat
    done = project.run("--pipelines", "assess")
    assert "1 candidate was not tried: the report has the reasons" in project.evidence["reasons"]
