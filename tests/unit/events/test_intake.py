from __future__ import annotations

import threading
import time

import pytest
from deliveries import make_job as make

from kedro_hone.core.errors import HoneError
from kedro_hone.events.intake import Intake
from kedro_hone.events.queue import Queue


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path / "queue.db")


def test_what_waits_is_written_together(queue, monkeypatch):
    sizes, begun, go = [], threading.Event(), threading.Event()
    real = queue.accept_all

    def accept_all(deliveries):
        begun.set()
        go.wait()
        deliveries = list(deliveries)
        sizes.append(len(deliveries))
        return real(deliveries)

    monkeypatch.setattr(queue, "accept_all", accept_all)
    intake = Intake(queue)
    first = intake.accept((make(),), delivery="a")
    begun.wait()
    later = [intake.accept((make(f"models:/m/{n}"),), delivery=f"b{n}") for n in range(700)]
    later.append(intake.accept((make(),), delivery="a"))
    go.set()
    intake.close()
    assert first.result() == 1
    assert [future.result() for future in later] == [1] * 700 + [0]
    assert sizes == [1, 500, 201]


def test_the_queues_file_is_whole_when_nothing_comes_any_more(queue, monkeypatch):
    def wait_at_most(seconds):
        monkeypatch.setattr("kedro_hone.events.intake._IDLE", seconds)

    wait_at_most(600)
    written = queue.path.with_name("queue.db-wal")
    intake = Intake(queue)
    for number in range(3):
        assert intake.accept((make(f"models:/m/{number}"),)).result(60) == 1
        assert written.exists(), (
            "the file is kept open: to make it whole after each commit takes longer than the commit"
        )
    wait_at_most(0.05)  # after what comes next
    intake.accept((make("models:/m/8"),))
    deadline = time.monotonic() + 60
    while written.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    wait_at_most(600)
    assert intake.accept((make("models:/m/9"),)).result(60) == 1
    assert written.exists()
    intake.close()
    assert not written.exists()


def test_what_comes_soon_after_is_written_with_it(queue, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.intake._GATHERED", 1.0)
    sizes, real = [], queue.accept_all

    def accept_all(deliveries):
        deliveries = list(deliveries)
        sizes.append(len(deliveries))
        return real(deliveries)

    monkeypatch.setattr(queue, "accept_all", accept_all)
    intake = Intake(queue)
    futures = []
    for number in range(3):
        futures.append(intake.accept((make(f"models:/m/{number}"),), delivery=f"b{number}"))
        time.sleep(0.05)  # long enough for the thread to write what it does not wait with
    assert [future.result(60) for future in futures] == [1, 1, 1]
    intake.close()
    assert sizes == [3]


def test_a_sender_that_has_gone_keeps_nobody_waiting(queue, monkeypatch):
    begun, go, real = threading.Event(), threading.Event(), queue.accept_all

    def accept_all(deliveries):
        begun.set()
        go.wait()
        return real(deliveries)

    monkeypatch.setattr(queue, "accept_all", accept_all)
    intake = Intake(queue)
    first = intake.accept((make(),), delivery="a")
    begun.wait()
    gone, waits = (intake.accept((make(f"models:/m/{n}"),), delivery=f"b{n}") for n in range(2))
    assert gone.cancel()
    go.set()
    assert [first.result(60), waits.result(60)] == [1, 1]
    intake.close()
    assert len(queue.list_jobs()) == 3  # it was sent, and is written


def test_an_error_that_nobody_expects_ends_no_thread(queue, monkeypatch):
    real, tries = queue.accept_all, []

    def accept_all(deliveries):
        tries.append(1)
        if len(tries) == 1:
            raise MemoryError
        return real(deliveries)

    monkeypatch.setattr(queue, "accept_all", accept_all)
    intake = Intake(queue)
    with pytest.raises(MemoryError):
        intake.accept((make(),), delivery="a").result(60)
    assert intake.accept((make(),), delivery="a").result(60) == 1
    intake.close()


def test_what_cannot_be_written_is_an_error_of_each(queue, monkeypatch):
    error = HoneError("queue-broken", "It is full.", why="It is.", hint="Wait.")

    def fail(_):
        raise error

    monkeypatch.setattr(queue, "accept_all", fail)
    intake = Intake(queue)
    futures = [intake.accept((make(),)) for _ in range(3)]
    intake.close()
    assert [future.exception() for future in futures] == [error] * 3


def test_what_is_new_is_logged_together_once_it_is_written(queue, monkeypatch):
    logged, states = [], []

    def log_each(event, rows):
        states.append(len(queue.list_jobs()))
        logged.append((event, [row["uri"] for row in rows]))

    monkeypatch.setattr("kedro_hone.events.intake._GATHERED", 1.0)
    monkeypatch.setattr("kedro_hone.events.intake.log_each", log_each)
    intake = Intake(queue)
    for number, delivery in enumerate(("a", "b", "a")):
        intake.accept((make(f"models:/m/{number}"),), delivery=delivery, note={"uri": f"models:/m/{number}"})
    intake.accept((make("models:/m/9"),))  # by hand: it has no note
    intake.close()
    assert logged == [("delivery-accepted", ["models:/m/0", "models:/m/1"])]
    assert states == [3]


def test_what_is_refused_is_logged_where_nothing_can_be_written(queue, monkeypatch, lines):
    monkeypatch.setattr(queue, "accept_all", lambda _: pytest.fail("there is nothing to write"))
    intake = Intake(queue)
    intake.refuse("delivery-refused", source="mlflow", reason="forged")
    intake.refuse("delivery-refused", source="mlflow", reason="forged")
    intake.close()
    assert set(lines()) == {"delivery-refused"}
    assert not intake.failing
