from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from kedro_hone.core.store.runs import RunFolder


def claim(arguments):
    place, count = arguments
    return [place.claim_step("toy.step").name for _ in range(count)]


def test_steps_are_numbered_in_order(tmp_path):
    place = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)

    assert [place.claim_step("a.b").name, place.claim_step("c.d").name] == ["001-a.b", "002-c.d"]
    assert place.claim_step("x", kind="launches").name == "001-x"


def test_processes_never_share_a_step(tmp_path):
    place = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        claimed = [name for names in pool.map(claim, [(place, 20)] * 2) for name in names]

    assert len(set(claimed)) == 40


def test_an_event_is_a_line(tmp_path):
    place = RunFolder(root=tmp_path / "runs", run_id="r", project=tmp_path)
    place.note("build", adaptor="toy.a")
    place.note("launch", candidate="x")

    events = [json.loads(line) for line in (place.folder / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["build", "launch"]
    assert (events[0]["adaptor"], events[1]["candidate"]) == ("toy.a", "x")
