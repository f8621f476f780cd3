from __future__ import annotations

import threading

from kedro_hone.hooks import progress_file
from kedro_hone.hooks.display import Snapshot
from kedro_hone.hooks.progress_file import NotingDisplay, describe_progress
from kedro_hone.report.progress_file import read_progress
from kedro_hone.report.result_file import VARIABLE


class Shown:
    shows_events = True

    def __init__(self):
        self.calls = []

    def show(self):
        self.calls.append("show")

    def close(self):
        self.calls.append("close")


def take(done=3, rest=30.0):
    return Snapshot(phase="build", done=done, total=12, seconds=10.0, rest=rest, best="best so far a")


def test_a_snapshot_in_words():
    one = describe_progress(take())
    assert (one.title, one.share, one.best) == ("Build and validate, 3 of 12", 0.25, "best so far a")
    assert one.clock == "10 s, about 30 s left"
    assert describe_progress(take(rest=None)).share is None


def test_it_is_written_now_and_then_besides_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "result.json"))
    clock, done, shown = [100.0], [1], Shown()
    monkeypatch.setattr(progress_file.time, "monotonic", lambda: clock[0])
    display = NotingDisplay(shown, lambda: take(done[0]))
    assert display.shows_events
    found = []
    for clock[0], done[0] in ((100.0, 1), (101.0, 2), (102.5, 3)):
        display.show()
        found.append(read_progress(tmp_path).title)
    display.close()
    assert found == [f"Build and validate, {number} of 12" for number in (1, 1, 3)]
    assert shown.calls == ["show"] * 3 + ["close"]


def test_a_disk_that_takes_nothing_ends_no_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for name in ("missing", "file"):
        monkeypatch.setenv(VARIABLE, str(tmp_path / name / "result.json"))
        display = NotingDisplay(Shown(), take)
        display.show()
        display.close()


def test_a_long_step_without_events_is_written_too(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "result.json"))
    monkeypatch.setattr(progress_file, "_SECONDS", 0.01)
    written = threading.Event()
    monkeypatch.setattr(progress_file, "note_progress", lambda _: written.set())
    display = NotingDisplay(Shown(), take)
    assert written.wait(60)
    display.close()
