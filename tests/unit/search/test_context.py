from __future__ import annotations

import json
import threading
import time

from hone_runtime.values.artifact import Artifact
from kedro_hone.core.locks import hold_devices
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.search.context import measure_alone

HANG = 600
"""Seconds after which a test is taken to hang."""


def make_artifact(device: str) -> Artifact:
    return Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=(), device=device)


def test_the_devices_of_all_that_is_measured_are_held(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    run = RunFolder(root=tmp_path / "hone" / "runs", run_id="one", project=tmp_path)
    with measure_alone(run, "race", artifacts=map(make_artifact, ["cpu", "cuda:1", "cpu"])):
        locks = sorted(path.name for path in (tmp_path / "locks").iterdir())
    assert locks == ["device-cpu.lock", "device-cuda-1.lock"]


def test_the_clock_starts_when_the_device_is_held(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    run = RunFolder(root=tmp_path / "hone" / "runs", run_id="one", project=tmp_path)
    measured = {}

    def measure():
        with measure_alone(run, "race", artifacts=[make_artifact("cpu")]) as took:
            pass
        measured.update(took, at=time.monotonic())

    thread = threading.Thread(target=measure)
    with hold_devices(tmp_path / "home" / "locks", ["cpu"]):
        thread.start()
        thread.join(1.5)
        assert measured == {}
        released = time.monotonic()
    thread.join(HANG)
    assert 0 <= measured["seconds"] <= measured["at"] - released
    waited = json.loads((run.folder / "events.jsonl").read_text())
    assert (waited["event"], waited["node"]) == ("waited", "race")
    assert waited["seconds"] > 0


def test_the_clock_runs_while_the_device_is_held(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    run = RunFolder(root=tmp_path / "hone" / "runs", run_id="one", project=tmp_path)
    began = time.monotonic()
    with measure_alone(run, "race", artifacts=[make_artifact("cpu")]) as took:
        time.sleep(0.05)
    assert 0.05 <= took["seconds"] <= time.monotonic() - began


def test_what_others_used_meanwhile_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    run = RunFolder(root=tmp_path / "hone" / "runs", run_id="one", project=tmp_path)
    with measure_alone(run, "race", artifacts=[make_artifact("cpu")]) as took:
        began = time.monotonic()
        while time.monotonic() - began < 0.2:
            sum(range(1000))
    assert 0 <= took["other_load"] <= 1
