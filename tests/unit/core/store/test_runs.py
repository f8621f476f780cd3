from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.store import runs as module
from kedro_hone.core.store.runs import RunFolder


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
    assert run.relocate_log(failed) == failed
    assert run.relocate_log(failed.model_copy(update={"log": str(tmp_path / "never written")})) == failed
    log = run.claim_step("toy.a") / "log"
    log.touch()
    assert run.relocate_log(failed.model_copy(update={"log": str(log)})).log == "r/steps/001-toy.a/log"
    (tmp_path / "install.log").write_text("no network")
    kept = run.relocate_log(failed.model_copy(update={"log": str(tmp_path / "install.log")})).log
    assert (kept, (run.root / kept).read_text()) == ("r/environments/001-toy.a/log", "no network")


@pytest.fixture
def now(monkeypatch):
    """The time of day, which the test sets."""
    times = {"now": 100.0}
    monkeypatch.setattr(module.time, "time", lambda: times["now"])
    return times


@pytest.fixture
def run(tmp_path):
    return RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)


def read_elsewhere(run):
    """Return the seconds as another process reads them."""
    return run.model_copy().read_seconds()


def test_the_seconds_of_a_search_count_from_its_beginning(run, now):
    assert not run.search_began
    assert run.read_seconds() == 0.0
    run.begin_search()
    now["now"] = 107.5
    assert run.search_began
    assert run.read_seconds() == 7.5


def test_a_search_begins_once(run, now):
    run.begin_search()
    now["now"] = 110.0
    run.begin_search()
    assert read_elsewhere(run) == 10.0


def test_what_is_left_out_of_a_search_does_not_count(run, now):
    run.begin_search()
    now["now"] = 110.0
    with run.pause_search():
        now["now"] = 150.0
    now["now"] = 153.0
    assert run.read_seconds() == 13.0


def test_pauses_of_two_threads_count_once(run, now):
    run.begin_search()
    for first, last in ((110.0, 150.0), (120.0, 160.0), (170.0, 171.0), (100.0, 105.0)):
        now["now"] = first
        with run.pause_search():
            now["now"] = last
    now["now"] = 180.0
    assert run.read_seconds() == 180 - 100 - (160 - 110) - 1 - 5


def test_a_pause_before_the_search_is_not_noted(run, now):
    with run.pause_search():
        now["now"] = 200.0
    run.begin_search()
    assert run.read_seconds() == 0.0


def test_a_pause_that_raises_is_left_out_too(run, now):
    def install():
        with run.pause_search():
            now["now"] = 150.0
            raise KeyError

    run.begin_search()
    with pytest.raises(KeyError):
        install()
    assert run.read_seconds() == 0.0


def test_a_pause_that_goes_on_is_left_out_for_every_process(run, now):
    run.begin_search()
    now["now"] = 110.0
    with run.pause_search():
        now["now"] = 150.0
        assert read_elsewhere(run) == 10.0
    now["now"] = 153.0
    assert run.read_seconds() == 13.0


def test_a_pause_of_a_process_that_was_killed_ends(run, now):
    run.begin_search()
    now["now"] = 110.0
    pause = run.pause_search()
    pause.__enter__()
    now["now"] = 110.0 + 3600.0 + 7.0
    assert run.read_seconds() == 17.0


def test_a_moment_that_was_cut_off_is_left_out(run, now):
    run.begin_search()
    for line in ("torn", "other x", "last 160.0"):
        with (run.search / "moments").open("a") as stream:
            stream.write(f"{line}\n"[: -1 if line.startswith("last") else None])
    now["now"] = 170.0
    assert run.read_seconds() == 70.0


def test_a_search_is_stopped_for_every_process(run):
    assert not run.is_stopped()
    run.stop()
    run.stop()
    assert run.model_copy().is_stopped()


def test_a_search_that_has_ended_has_a_reason(run):
    assert run.read_end() == ""
    run.end_search("all else is slower")
    assert run.model_copy().read_end() == "all else is slower"
    assert not run.is_stopped()
