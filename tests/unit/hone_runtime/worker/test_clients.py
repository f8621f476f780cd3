"""Clients of a model: threads that call it at once, timed as one block."""

from __future__ import annotations

import threading
import time

import pytest

from hone_runtime.worker.clients import Clients


class Model:
    """Counts its calls, and how many run at once."""

    def __init__(self, seconds=0.002):
        self.seconds, self.made, self.running, self.most = seconds, [], 0, 0
        self.lock = threading.Lock()

    def make_call(self, name):
        def call():
            with self.lock:
                self.made.append(name)
                self.running += 1
                self.most = max(self.most, self.running)
            time.sleep(self.seconds)
            with self.lock:
                self.running -= 1

        return call


@pytest.mark.parametrize("calls", [4, 9, 40])
def test_a_block_is_that_many_calls_by_all_clients_at_once(calls):
    model = Model()
    times, wall = Clients([model.make_call(name) for name in "abcd"]).time(calls)

    assert (len(times), len(model.made), model.most) == (calls, calls, 4)
    assert {*model.made} == {*"abcd"}
    assert min(times) >= 2_000_000
    assert max(times) <= wall <= sum(times)


def test_a_client_that_is_done_makes_the_next_call_of_the_block():
    slow, fast = threading.Event(), Model(seconds=0)
    quick = fast.make_call("quick")

    def call():
        quick()
        if len(fast.made) == 9:
            slow.set()

    times, _ = Clients([lambda: slow.wait(60), call]).time(10)

    assert (len(times), len(fast.made), slow.is_set()) == (10, 9, True)


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
        Clients([fail, lambda: None]).time(20)
