from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from kedro_hone.core.store.workplace import Workplace


def claim(arguments):
    place, count = arguments
    return [place.claim_step("toy.step").name for _ in range(count)]


def test_steps_are_numbered_in_order(tmp_path):
    place = Workplace(root=str(tmp_path), run_id="r")

    assert [place.claim_step("a.b").name, place.claim_step("c.d").name] == ["001-a.b", "002-c.d"]
    assert place.claim_step("x", kind="launches").name == "001-x"


def test_processes_never_share_a_step(tmp_path):
    place = Workplace(root=str(tmp_path), run_id="r")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        claimed = [name for names in pool.map(claim, [(place, 20)] * 2) for name in names]

    assert len(set(claimed)) == 40


def test_events_are_counted_and_a_cut_line_is_left_out(tmp_path):
    place = Workplace(root=str(tmp_path), run_id="r")
    place.note("build", adaptor="toy.a")
    place.note("launch", candidate="x")
    place.note("launch", candidate="y")
    with (place.folder / "events.jsonl").open("a") as stream:
        stream.write('{"event": "launch", "candi')

    assert [event["event"] for event in place.read_events()] == ["build", "launch", "launch"]


def test_a_run_that_did_nothing_has_no_events(tmp_path):
    assert Workplace(root=str(tmp_path), run_id="r").read_events() == ()
