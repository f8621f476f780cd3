from __future__ import annotations

import threading
import time

import pytest

from kedro_hone.core.store import clock as module
from kedro_hone.core.store.clock import Clock


@pytest.fixture
def now(monkeypatch):
    """A clock that the test sets."""
    times = {"now": 100.0}
    monkeypatch.setattr(module.time, "monotonic", lambda: times["now"])
    return times


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "search")


def test_it_counts_from_its_beginning(clock, now):
    assert not clock.begun
    assert clock.read() == 0.0
    clock.begin()
    now["now"] = 107.5
    assert clock.begun
    assert clock.read() == 7.5


def test_it_begins_once(clock, now):
    clock.begin()
    now["now"] = 110.0
    clock.begin()
    assert Clock(clock.folder).read() == 10.0
    assert [path.name for path in clock.folder.iterdir()] == ["begun"]


def test_what_is_left_out_does_not_count(clock, now):
    clock.begin()
    now["now"] = 110.0
    with clock.exclude():
        now["now"] = 150.0
    now["now"] = 153.0
    assert clock.read() == 13.0


def test_breaks_of_two_threads_count_once(clock, now):
    clock.begin()
    for first, last in ((110.0, 150.0), (120.0, 160.0), (170.0, 171.0), (100.0, 105.0)):
        now["now"] = first
        with clock.exclude():
            now["now"] = last
    now["now"] = 180.0
    assert clock.read() == 180 - 100 - (160 - 110) - 1 - 5


def test_a_break_before_it_begins_is_not_noted(clock, now):
    with clock.exclude():
        now["now"] = 200.0
    clock.begin()
    assert clock.read() == 0.0
    assert not (clock.folder / "breaks").exists()


def test_a_break_that_raises_is_left_out_too(clock, now):
    def install():
        with clock.exclude():
            now["now"] = 150.0
            raise KeyError

    clock.begin()
    with pytest.raises(KeyError):
        install()
    assert clock.read() == 0.0


def test_many_begin_it_at_once(clock):
    before = time.monotonic()
    threads = [threading.Thread(target=clock.begin) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert before <= float((clock.folder / "begun").read_text().split()[0]) <= time.monotonic()


def test_it_is_stopped_for_every_process(clock):
    assert not clock.stopped
    clock.stop()
    clock.stop()
    assert Clock(clock.folder).stopped


def test_another_machine_counts_the_same_seconds(clock, now, monkeypatch):
    """Its monotonic clock has another zero; the wall clocks agree."""
    day = {"zero": 1_000_000.0}
    monkeypatch.setattr(module.time, "time", lambda: day["zero"] + module.time.monotonic())
    clock.begin()
    now["now"] = 105.0
    with clock.exclude():
        now["now"] = 108.0
    now["now"] = 109.0
    assert clock.read() == pytest.approx(6.0)

    monkeypatch.setattr(module, "_name_clock", lambda: "another machine's")
    now["now"] = 509.0
    day["zero"] -= 400.0

    assert clock.read() == pytest.approx(6.0)


def test_a_break_that_lasts_is_not_counted_by_who_reads_meanwhile(clock, now):
    clock.begin()
    now["now"] = 110.0
    with clock.exclude():
        now["now"] = 150.0
        assert Clock(clock.folder).read() == 10.0
    now["now"] = 153.0
    assert clock.read() == 13.0
    assert sorted(path.name for path in clock.folder.iterdir()) == ["begun", "breaks"]


def test_a_break_of_a_process_that_is_gone_is_over(clock, now):
    clock.begin()
    (clock.folder / "break-killed").write_text("105.0 0.0 boot")
    now["now"] = 110.0
    assert clock.read() == 10.0


def test_a_line_that_was_cut_off_is_left_out(clock, now):
    clock.begin()
    now["now"] = 110.0
    with clock.exclude():
        now["now"] = 150.0
    with (clock.folder / "breaks").open("a") as stream:
        stream.write("160.0 0.0")
    now["now"] = 170.0
    assert clock.read() == 30.0
