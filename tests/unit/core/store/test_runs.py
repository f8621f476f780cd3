from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.outcome import Failed, FailureClass


def claim(arguments):
    place, count = arguments
    return [place.claim_step("toy.step").name for _ in range(count)]


def test_steps_are_numbered_in_order(tmp_path):
    place = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)

    assert [place.claim_step("a.b").name, place.claim_step("c.d").name] == ["001-a.b", "002-c.d"]
    assert place.claim_step("x", kind="launches") == place.folder / "launches" / "001-x"
    assert (place.folder / "steps" / "001-a.b").is_dir()


def test_a_number_that_another_process_claims_meanwhile_is_passed_over(tmp_path):
    place = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)
    claims = place.folder / "steps" / ".claims"
    claims.mkdir(parents=True)
    for number in (2, 3):  # with these two the next one is taken for the third
        (claims / str(number)).touch()

    assert place.claim_step("a.b").name == "004-a.b"


def test_processes_never_share_a_step(tmp_path):
    place = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        claimed = [name for names in pool.map(claim, [(place, 20)] * 2) for name in names]

    assert len(set(claimed)) == 40


def test_an_event_is_a_line(tmp_path):
    place = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)
    place.note("build", adaptor="toy.a")
    place.note("launch", candidate="x", folder=tmp_path)

    events = [json.loads(line) for line in (place.folder / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["build", "launch"]
    assert (events[0]["adaptor"], events[1]["candidate"]) == ("toy.a", "x")
    assert events[1]["folder"] == str(tmp_path)  # what JSON does not have is noted as text
    assert 0 < events[0]["at"] <= events[1]["at"]


def test_what_is_in_the_project_is_named_from_there(tmp_path):
    run = RunFolder(root=tmp_path / "shop" / "runs", run_id="r", project=tmp_path / "shop")
    assert run.relate(run.folder / "winner") == "runs/r/winner"
    assert [run.relate(other) for other in ("models:/digits/1", tmp_path)] == ["models:/digits/1", str(tmp_path)]


def test_a_log_is_named_from_the_folder_of_all_runs(tmp_path):
    run = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)
    failed = Failed(by="toy.a", failure=FailureClass.CRASH, reason="no")
    assert run.name_log(failed) == failed
    assert run.name_log(failed.model_copy(update={"log": str(tmp_path / "never written")})) == failed
    log = run.claim_step("toy.a") / "log"
    log.touch()
    assert run.name_log(failed.model_copy(update={"log": str(log)})).log == "r/steps/001-toy.a/log"
    (tmp_path / "install.log").write_text("no network")
    kept = run.name_log(failed.model_copy(update={"log": str(tmp_path / "install.log")})).log
    assert (kept, (run.root / kept).read_text()) == ("r/environments/001-toy.a/log", "no network")


def test_an_event_that_was_cut_short_is_left_out(tmp_path):
    place = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)
    place.note("valid", route=["a"])
    with (place.folder / "events.jsonl").open("a") as stream:
        stream.write('{"at": 1, "event": "valid", "rou\n"valid"\n')
    place.note("valid", route=["b"])
    assert [note["route"] for note in place.read_notes("valid")] == [["a"], ["b"]]
