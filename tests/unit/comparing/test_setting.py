from __future__ import annotations

import threading
import time

from kedro_hone.comparing.setting import measure_alone
from kedro_hone.core.locks import hold_device
from kedro_hone.core.store.workplace import Workplace

HANG = 600
"""Seconds after which a test is taken to hang."""


def test_the_clock_starts_when_the_device_is_held(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    workplace = Workplace(root=str(tmp_path / "hone"), run_id="one")
    measured = {}

    def measure():
        with measure_alone(workplace, "race") as clock:
            measured["seconds"] = clock()
            measured["at"] = time.monotonic()

    thread = threading.Thread(target=measure)
    with hold_device(tmp_path / "home" / "locks", "cpu"):
        thread.start()
        thread.join(1.5)
        assert measured == {}
        released = time.monotonic()
    thread.join(HANG)
    assert 0 <= measured["seconds"] <= measured["at"] - released
    (waited,) = workplace.read_events()
    assert (waited["event"], waited["node"]) == ("waited", "race")
    assert waited["seconds"] > 0


def test_the_clock_runs_while_the_device_is_held(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    with measure_alone(Workplace(root=str(tmp_path / "hone"), run_id="one"), "race") as clock:
        began, before = time.monotonic(), clock()
        time.sleep(0.05)
        assert 0.05 <= clock() - before <= time.monotonic() - began
