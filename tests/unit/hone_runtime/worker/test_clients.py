"""Clients of a model: threads that call it at once, timed as one block."""

from __future__ import annotations

import threading
import time

import pytest

from hone_runtime.worker.clients import Clients


@pytest.mark.parametrize("calls", [4, 12, 40])
def test_a_block_is_that_many_calls_by_all_clients_at_once(calls):
    meeting, made = threading.Barrier(4), []  # a call returns when four run

    def make_call(name):
        return lambda: (made.append(name), meeting.wait(300))

    times, wall = Clients([make_call(name) for name in "abcd"]).time(calls)

    assert (len(times), len(made), {*made}) == (calls, calls, {*"abcd"})
    assert 0 < max(times) <= wall <= sum(times)


def test_a_client_that_is_done_makes_the_next_call_of_the_block():
    slow, done, made = threading.Event(), threading.Event(), []

    def wait():
        slow.set()
        done.wait(300)

    def call():
        slow.wait(300)  # until the other client has begun with its own
        made.append(1)
        if len(made) == 9:
            done.set()

    times, _ = Clients([wait, call]).time(10)

    assert (len(times), len(made)) == (10, 9)


def test_blocks_follow_each_other_with_the_same_threads():
    seen = []
    clients = Clients([lambda: (seen.append(threading.get_ident()), time.sleep(0.001))] * 3)
    clients.time(12)
    clients.time(12)

    assert {*seen[:12]} == {*seen[12:]}
    assert len({*seen}) == 3


def test_what_a_call_raises_is_raised_after_the_block():
    def fail():
        raise ValueError("no rows")

    with pytest.raises(ValueError, match="no rows"):
        Clients([fail, fail]).time(20)
