"""The rows of the queue for programs and for the page."""

from __future__ import annotations

import json

import pytest
from deliveries import make_job

from kedro_hone.events.job import State
from kedro_hone.events.listing import describe_job, find_model


@pytest.mark.parametrize(
    ("uri", "model"),
    [
        ("models:/digits/3", "models:/digits"),
        ("hf://org/clf@" + "a" * 40, "hf://org/clf"),
        ("/srv/models/digits", "/srv/models/digits"),
    ],
)
def test_a_model_is_its_uri_without_the_version(uri, model):
    assert find_model(uri) == model


def test_programs_get_what_the_page_shows(service, tmp_path):
    service.queue.accept((make_job(),))
    run = tmp_path / "run"
    run.mkdir()
    (run / "report.html").write_text("")
    (tmp_path / "result.json").write_text(json.dumps({"folder": str(run), "speed": "2.0 times faster at batch 1"}))
    (tmp_path / "progress.json").write_text(json.dumps({"title": "Race\x1b[2J", "share": 0.5}))
    job = service.queue.claim("cpu")
    running = describe_job(job, tmp_path)
    assert running["progress"] == {"title": "Race\ufffd[2J", "clock": "", "share": 0.5, "best": ""}
    service.queue.finish(job, State.DONE, verdict="PASS")
    ended = describe_job(service.queue.find(job.id), tmp_path)
    assert (ended["speed"], ended["report"], ended["progress"]) == (
        "2.0 times faster at batch 1",
        "/runs/1/report",
        None,
    )
    assert "process" not in ended


def test_without_files_there_is_nothing_to_show(service, tmp_path):
    service.queue.accept((make_job(),))
    described = describe_job(service.queue.claim("cpu"), tmp_path / "none")
    assert (described["speed"], described["report"], described["progress"]) == ("", "", None)
