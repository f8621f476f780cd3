from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from kedro_hone.core.store.workplace import Workplace


def claim(arguments):
    place, count = arguments
    return [place.claim_step("toy.step").name for _ in range(count)]


def test_runs_share_a_store_and_no_folder(tmp_path):
    one, two = (Workplace(root=str(tmp_path), run_id=run) for run in ("a", "b"))

    assert (one.folder, two.folder) == (tmp_path / "runs" / "a", tmp_path / "runs" / "b")
    assert one.store.root == two.store.root == tmp_path / "store"


def test_steps_are_numbered_in_order(tmp_path):
    place = Workplace(root=str(tmp_path), run_id="r")

    assert [place.claim_step("a.b").name, place.claim_step("c.d").name] == ["001-a.b", "002-c.d"]
    assert place.claim_step("x", kind="launches") == place.folder / "launches" / "001-x"
    assert (place.folder / "steps" / "001-a.b").is_dir()


def test_a_number_that_another_process_claims_meanwhile_is_passed_over(tmp_path):
    place = Workplace(root=str(tmp_path), run_id="r")
    claims = place.folder / "steps" / ".claims"
    claims.mkdir(parents=True)
    for number in (2, 3):  # with these two the next one is taken for the third
        (claims / str(number)).touch()

    assert place.claim_step("a.b").name == "004-a.b"


def test_processes_never_share_a_step(tmp_path):
    place = Workplace(root=str(tmp_path), run_id="r")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        claimed = [name for names in pool.map(claim, [(place, 20)] * 2) for name in names]

    assert len(set(claimed)) == 40


def test_an_event_is_a_line(tmp_path):
    place = Workplace(root=str(tmp_path), run_id="r")
    place.note("build", adaptor="toy.a")
    place.note("launch", candidate="x", folder=tmp_path)

    events = [json.loads(line) for line in (place.folder / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["build", "launch"]
    assert (events[0]["adaptor"], events[1]["candidate"]) == ("toy.a", "x")
    assert events[1]["folder"] == str(tmp_path)  # what JSON does not have is noted as text
    assert 0 < events[0]["at"] <= events[1]["at"]
