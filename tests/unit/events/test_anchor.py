from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from deliveries import make_job as make

from kedro_hone.events.anchor import Anchor
from kedro_hone.events.queue import Queue


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path / "queue.db")


@pytest.fixture
def log(queue):
    """SQLite's own log of the queue's file, which it removes when the last connection closes."""
    return queue.path.with_name("queue.db-wal")


def test_the_log_stays_between_commits_until_the_file_is_let_go(queue, log):
    queue.accept([make()])
    assert not log.exists(), "without an anchor each commit is written twice"
    with closing(Anchor(queue.path)) as anchor:
        for number in range(3):
            anchor.renew()
            queue.accept([make(f"models:/m/{number}")])
            assert log.stat().st_size
    assert not log.exists()
    assert len(queue.list_jobs()) == 4


def test_a_file_that_was_replaced_keeps_its_log_when_the_old_one_is_let_go(queue, log):
    with closing(Anchor(queue.path)) as anchor:
        anchor.renew()
        queue.accept([make()])
        queue.path.unlink()
        anchor.renew()  # there is none
        queue.accept([make("models:/m/2")])
        with closing(sqlite3.connect(queue.path)) as reader:
            reader.execute("SELECT * FROM jobs").fetchall()
            queue.accept([make("models:/m/3")])
            assert log.stat().st_size
            anchor.renew()
        assert log.stat().st_size
        assert [job.uri for job in queue.list_jobs()] == ["models:/m/3", "models:/m/2"]
    assert [job.uri for job in queue.list_jobs()] == ["models:/m/3", "models:/m/2"]


def test_where_there_is_no_file_none_is_made(tmp_path):
    with closing(Anchor(tmp_path / "queue.db")) as anchor:
        anchor.renew()
    assert [*tmp_path.iterdir()] == []


def test_what_cannot_be_read_now_is_tried_again(queue, log):
    whole = queue.path.read_bytes()
    with closing(Anchor(queue.path)) as anchor:
        queue.path.write_bytes(b"no database, but longer than its header" * 99)
        anchor.renew()
        queue.path.write_bytes(whole)  # the same file
        anchor.renew()
        queue.accept([make()])
        assert log.exists()
