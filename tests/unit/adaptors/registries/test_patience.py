"""Calls that must end in time."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from kedro_hone.adaptors.registries.patience import StalledError, run_within


def test_what_a_call_returns_or_raises():
    def fail():
        raise KeyError("no")

    assert run_within(60, lambda: 3) == 3
    with pytest.raises(KeyError, match="no"):
        run_within(60, fail)


def test_a_call_that_stands_still_is_given_up_and_one_that_gets_on_is_not():
    ended = threading.Event()
    with pytest.raises(StalledError, match=r"within 0\.05 seconds"):
        run_within(0.05, ended.wait)
    steps = count()

    def measure():
        step = next(steps)
        if step > 5:
            ended.set()
        return step

    assert run_within(0.05, ended.wait, progress=measure)
