from __future__ import annotations

import time

import pytest
from deliveries import make_job

from kedro_hone.events.job import State
from kedro_hone.events.queue import Queue
from kedro_hone.events.retention import DAY_SECONDS, clean_up, remove_old


@pytest.fixture
def clock():
    return [time.time() - 100 * DAY_SECONDS]


@pytest.fixture
def queue(tmp_path, clock):
    """A queue of which the first job ended long ago, the second today, and the third, as old as the first, waits."""
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    queue.accept([make_job(f"models:/digits/{number}") for number in (1, 2, 3)])
    for number in (1, 2, 3):
        (tmp_path / "jobs" / str(number)).mkdir(parents=True)
    queue.finish(queue.claim("cpu"), State.DONE)
    clock[0] = time.time()
    queue.finish(queue.claim("cpu"), State.FAILED)
    return queue


def list_folders(tmp_path):
    return sorted(path.name for path in (tmp_path / "jobs").iterdir())


def test_the_folders_of_old_ended_jobs_are_removed_and_their_rows_stay(queue, tmp_path):
    assert remove_old(queue, tmp_path / "jobs", before=time.time() - 50 * DAY_SECONDS) == 1
    assert list_folders(tmp_path) == ["2", "3"]
    assert remove_old(queue, tmp_path / "jobs", before=time.time() - 50 * DAY_SECONDS) == 0
    assert queue.accept([make_job("models:/digits/1")], delivery="later") == 0


def test_it_happens_each_day_and_a_day_that_fails_is_logged(queue, tmp_path, monkeypatch, lines):
    assert clean_up(queue, tmp_path / "jobs", days=90) == DAY_SECONDS
    assert list_folders(tmp_path) == ["2", "3"]

    def fail():
        raise MemoryError

    monkeypatch.setattr(queue, "forget_old", fail)
    assert clean_up(queue, tmp_path / "jobs", days=90) == DAY_SECONDS
    assert lines() == ["jobs-removed", "jobs-not-removed"]
