"""Streams: the share of the threads, and sessions that serve one call at a time each."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hone_runtime.sessions.streams import MOST_STREAMS, PooledSession, find_streams, share_threads


@pytest.mark.parametrize(
    ("threads", "streams", "shares"),
    [(8, 2, (2, 4)), (8, 3, (3, 2)), (2, 4, (2, 1)), (1, 4, (1, 1)), (16, 1, (1, 16)), (4, 4, (4, 1))],
)
def test_streams_share_the_threads_and_are_no_more_than_these(threads, streams, shares):
    assert share_threads(threads, streams) == shares


@pytest.mark.parametrize(
    ("options", "streams"),
    [
        ({}, None),
        ({"graph_optimization": "disabled", "streams": 4}, 4),
        ({"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": 4}, 4),
        ({"PERFORMANCE_HINT": "THROUGHPUT"}, "auto"),
        ({"PERFORMANCE_HINT": "LATENCY"}, None),
        ({"streams": 10**9}, MOST_STREAMS),
        ({"streams": -1}, 1),
        ({"streams": None}, None),
        ({"streams": "many"}, None),
    ],
)
def test_streams_are_found_in_the_options_of_each_runtime(options, streams):
    assert find_streams(options) == streams


class Session:
    """A session with one buffer, as an interpreter has: a second call at the same time would overwrite it."""

    has_cache = False

    def __init__(self, number):
        self.number, self.served, self.buffer = number, 0, None
        self.meeting = None

    def run(self, feeds):
        self.buffer = feeds["x"]
        if self.meeting is not None:
            self.meeting.wait(60)
        self.served += 1
        if feeds["x"] is None:
            raise ValueError("no rows")
        return {"y": self.buffer}


def test_calls_at_once_are_served_by_different_sessions():
    sessions = [Session(number) for number in range(3)]
    meeting = threading.Barrier(3)
    for one in sessions:
        one.meeting = meeting  # each call waits until three run: one session for all would never return
    pooled = PooledSession(sessions)
    with ThreadPoolExecutor(9) as callers:
        found = list(callers.map(lambda x: pooled.run({"x": x})["y"], range(9)))

    assert found == [*range(9)]
    assert [one.served for one in sessions] == [3, 3, 3]


def test_a_session_serves_again_after_a_call_that_failed():
    pooled = PooledSession([Session(0)])
    for _ in range(2):
        with pytest.raises(ValueError, match="no rows"):
            pooled.run({"x": None})

    assert pooled.run({"x": 1}) == {"y": 1}


def test_everything_else_is_done_by_the_first_session():
    pooled = PooledSession([Session(7), Session(8)])

    assert (pooled.number, pooled.has_cache) == (7, False)
    assert not hasattr(pooled, "count_operators")
