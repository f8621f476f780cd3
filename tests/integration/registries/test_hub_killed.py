"""SIGKILL in the middle of a download and of an upload, and two processes at once: the next one completes it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hub_client import hub
from hub_server import Fault
from proof import TAGS

import kedro_hone
from hone_runtime.contract.registries import find_registry

pytestmark = pytest.mark.nightly

__all__ = ["hub"]
WEIGHTS = "model.safetensors"
SHA = "[0-9a-f]{40}"
LONG = 300
"""Seconds that only a process that hangs needs."""
DOWNLOADS = {
    "before the first response": Fault("GET /api/models/org/model/revision"),
    "before the large file": Fault(f"HEAD .*{WEIGHTS}"),
    "early in the large file": Fault(f"GET .*{WEIGHTS}", cut=20_000),
    "late in the large file": Fault(f"GET .*{WEIGHTS}", cut=190_000),
    "after the files": Fault("GET .*/tree/"),
}
UPLOADS = {
    "before the first upload": Fault("POST .*/preupload/"),
    "in the large file": Fault("PUT /_lfs/", cut=1),
    "after the large file": Fault("POST /_lfs/.*/verify", after=True),
    "before the commit": Fault("POST .*/commit/", status=500),
    "after the commit": Fault("POST .*/commit/", after=True),
    "after the tag": Fault("POST .*/tag/", after=True),
}


@pytest.fixture
def proven(make_winner, prove):
    return prove(make_winner())


@pytest.fixture
def start(hub, tmp_path):
    """Return a function that starts a process with a job; it works once a line was written to it."""
    processes = []

    def begin(**job: object) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": f"{Path(kedro_hone.__file__).parents[1]}:{Path(__file__).parents[2]}"}
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("hub_work.py")), json.dumps(job)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen(command, env=environment, cwd=tmp_path, **pipes))
        assert int(processes[-1].stdout.readline()) == processes[-1].pid
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def let_work(process) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


def kill_at(hub, fault, process) -> None:
    """Let a process work, and kill it when the Hub gets to a moment."""

    def kill():
        time.sleep(0.5)  # what was sent is received meanwhile
        os.kill(process.pid, signal.SIGKILL)

    hub.faults = [Fault(**vars(fault) | {"times": 1, "call": kill})]
    let_work(process)
    assert process.wait(LONG) == -signal.SIGKILL
    hub.faults = []


def check_cache(hub, tmp_path) -> None:
    """Check that the cache holds the large file whole."""
    blobs = tmp_path / "hf" / "hub" / "models--org--model" / "blobs"
    files = hub.repositories["org/model"].files
    assert (blobs / files[WEIGHTS].sha256).read_bytes() == files[WEIGHTS].read()


@pytest.mark.parametrize("moment", DOWNLOADS)
def test_a_killed_download_is_completed_by_the_next(hub, start, tmp_path, moment):
    kill_at(hub, DOWNLOADS[moment], start(folder=str(tmp_path / "killed")))
    hub.requests.clear()
    find_registry("hf://org/model").pull("hf://org/model", tmp_path / "pulled")
    check_cache(hub, tmp_path)
    assert (tmp_path / "pulled" / WEIGHTS).read_bytes() == hub.repositories["org/model"].files[WEIGHTS].read()
    if moment == "after the files":
        assert not hub.count(WEIGHTS)


@pytest.mark.parametrize("moment", UPLOADS)
def test_a_killed_upload_leaves_nothing_half_and_is_completed(hub, start, proven, tmp_path, moment):
    repository, winner = hub.repositories["org/model"], proven.artifact
    head, commits = repository.head, len(repository.commits)
    job = {"home": str(tmp_path), "artifact": winner.model_dump(mode="json")}
    kill_at(hub, UPLOADS[moment], start(**job))
    made = moment in {"after the commit", "after the tag"}
    assert (repository.head == head) != made
    registry = find_registry("hf://org/model")
    done = registry.publish(proven, name="org/model", tags=TAGS, alias="honed")
    assert done.version == repository.head == repository.refs["refs/tags/honed"]
    assert len(repository.commits) == commits + 1
    assert kedro_hone.load("hf://org/model@honed", interface="onnx").artifact == winner
    assert not list((tmp_path / "hub").glob("*.[0-9]*")) or moment == "in the large file"


def test_two_processes_share_a_cache(hub, start, tmp_path):
    hub.faults = [Fault(f"GET .*{WEIGHTS}", pause=0.3)]
    processes = [start(folder=str(tmp_path / name)) for name in ("one", "two")]
    for process in processes:
        let_work(process)
    for process in processes:
        out, err = process.communicate(timeout=LONG)
        assert process.returncode == 0, err
        assert out.endswith(hub.repositories["org/model"].head)
    check_cache(hub, tmp_path)
    assert hub.count(f"GET .*{WEIGHTS}") == 1
    inodes = {(tmp_path / name / WEIGHTS).stat().st_ino for name in ("one", "two")}
    assert len(inodes) == 1


def test_a_download_at_work_is_not_taken_for_a_killed_one(hub, start, tmp_path):
    hub.faults = [Fault(f"GET .*{WEIGHTS}", pause=0.5, times=1)]
    process = start(folder=str(tmp_path / "slow"))
    let_work(process)
    blobs = tmp_path / "hf" / "hub" / "models--org--model" / "blobs"
    while not [path for path in blobs.glob("*.incomplete") if path.stat().st_size]:
        assert process.poll() is None
        time.sleep(0.05)  # the Hub is a thread of this process
    find_registry("hf://org/model").pull("hf://org/model", tmp_path / "pulled")
    process.communicate(timeout=LONG)
    assert process.returncode == 0
    check_cache(hub, tmp_path)
    assert hub.count(f"GET .*{WEIGHTS}") == 1


def test_two_processes_that_publish_the_same_make_one_commit(hub, start, proven, tmp_path):
    repository, winner = hub.repositories["org/model"], proven.artifact
    commits = len(repository.commits)
    job = {"home": str(tmp_path), "artifact": winner.model_dump(mode="json")}
    processes = [start(**job), start(**job)]
    for process in processes:
        let_work(process)
    outputs = {process.communicate(timeout=LONG)[0] for process in processes}
    assert outputs == {f"hf://org/model@{repository.head}"}
    assert len(repository.commits) == commits + 1
