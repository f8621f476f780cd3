"""A run that waits while another one measures: the wait is recorded, and is no part of the race."""

from __future__ import annotations

import json
import signal
import time

import pytest
from small_project import HANG, copy_project

from kedro_hone.core.locks import hold_devices

HELD_SECONDS = 6.0

pytestmark = pytest.mark.slow


@pytest.mark.nightly
def test_the_wait_for_another_run_is_not_the_races(template, tmp_path):
    project = copy_project(template, tmp_path)
    project.set(adaptors={name: {"enabled": False} for name in ("shop.slow", "shop.convert")})
    with project.start("run", "--pipelines", "assess") as process:
        with hold_devices(tmp_path / "home" / "locks", ["cpu"], purpose="another run"):
            said = []
            for line in process.stdout:
                said.append(line)
                if "Waiting for device-cpu" in line:
                    break
            assert process.poll() is None, "".join(said)
            time.sleep(HELD_SECONDS)
        output, _ = process.communicate()
    assert process.returncode == 0, "".join(said) + output
    (run,) = project.runs
    lines = (run / "events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "waited"]
    assert [event["node"] for event in events] == ["race", "confirm"]
    race, confirm = events
    assert race["seconds"] >= HELD_SECONDS
    # From the moment when the race had the lock until confirm had it: the race is a part of that.
    assert 0 < project.evidence["race"]["seconds"] <= confirm["at"] - race["at"]
    assert project.evidence["phase_seconds"]["race"] == project.evidence["race"]["seconds"]


@pytest.mark.nightly
def test_ctrl_c_ends_the_wait(template, tmp_path):
    project = copy_project(template, tmp_path)
    project.set(adaptors={name: {"enabled": False} for name in ("shop.slow", "shop.convert")})
    with (
        hold_devices(tmp_path / "home" / "locks", ["cpu"], purpose="another run"),
        project.start("run", "--pipelines", "assess") as process,
    ):
        for line in process.stdout:
            if "Waiting for device-cpu" in line:
                break
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=HANG)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert not list(project.root.rglob("evidence.json"))
