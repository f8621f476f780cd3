from __future__ import annotations

import threading

from kedro_hone.events.recurrence import Recurrence

HANG = 60.0


def test_each_call_has_its_own_pause_and_the_first_is_at_once():
    counts, done = [0, 0], threading.Event()

    def often():
        counts[0] += 1
        if counts[0] == 3:
            done.set()
        return 0.01

    def seldom():
        counts[1] += 1
        return 3600.0

    schedule = Recurrence(seldom, often)
    schedule.start()
    assert done.wait(HANG)
    schedule.stop()
    assert not schedule.is_alive()
    assert counts[1] == 1


def test_one_that_was_not_started_can_be_stopped():
    Recurrence(lambda: 0.0).stop()


def test_nothing_more_is_called_once_it_is_stopped():
    calls = []

    def first():
        calls.append("first")
        schedule._stopping.set()
        return 0.0

    schedule = Recurrence(first, lambda: calls.append("second") or 0.0)
    schedule.start()
    schedule.join(HANG)
    assert calls == ["first"]
