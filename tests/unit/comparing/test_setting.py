from __future__ import annotations

import json
import os
import threading
import time

from kedro_hone.comparing.setting import Setting, measure_alone
from kedro_hone.core.locks import hold_devices
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.samples import Samples
from kedro_hone.recipe.schema import read_recipe

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
        with measure_alone(run, "race", artifacts=[make_artifact("cpu")]) as watch:
            measured["seconds"] = watch().seconds
            measured["at"] = time.monotonic()

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
    with measure_alone(run, "race", artifacts=[make_artifact("cpu")]) as watch:
        began, before = time.monotonic(), watch().seconds
        time.sleep(0.05)
        assert 0.05 <= watch().seconds - before <= time.monotonic() - began


def test_what_others_used_meanwhile_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    run = RunFolder(root=tmp_path / "hone" / "runs", run_id="one", project=tmp_path)
    with measure_alone(run, "race", artifacts=[make_artifact("cpu")]) as watch:
        began = time.monotonic()
        while time.monotonic() - began < 0.2:
            sum(range(1000))
        assert 0 <= watch().other_load <= 1


def make_setting(project, **recipe) -> Setting:
    samples = Samples(digest="sha256:1", splits={}, shapes={}, program="", program_digest="")
    recipe = {"model": {"uri": "m"}, "program": {"name": "fidelity", "metric": "mine.py:score"}, **recipe}
    run = RunFolder(root=project / "runs", run_id="one", project=project)
    return Setting(
        source=make_artifact("cpu"),
        samples=samples,
        recipe=read_recipe(recipe),
        store=Store(project / "store"),
        run=run,
    )


def test_the_subject_is_all_that_a_comparison_is_about(tmp_path, monkeypatch):
    metric = tmp_path / "mine.py"
    metric.write_text("def score(): return 1")
    one = make_setting(tmp_path)
    subject, scored = one.subject, one.scored
    assert make_setting(tmp_path, publish={"name": "elsewhere"}).subject == subject
    assert make_setting(tmp_path, gates={"drop": 0.2}).subject != subject
    assert make_setting(tmp_path, gates={"drop": 0.2}).scored == scored
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))  # a machine with other cores, threads not named
    assert make_setting(tmp_path).subject != subject
    metric.write_text("def score(): return 2")
    assert make_setting(tmp_path).scored != scored
