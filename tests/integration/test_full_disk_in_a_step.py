"""A disk that fills while a step runs, whatever its toolchain makes of that: it is tried again, and kept nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

WORKER = '''
import ctypes, mmap, os, tempfile

def fill(place):
    with open(place + "/filled", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass

def swallowed(job):
    """No word of it, and afterwards there is no room for a result."""
    fill(job["output"])
    return {}

def words(job):
    """As OpenVINO says it."""
    fill(job["output"])
    raise RuntimeError("basic_ios::clear: iostream error")

def temporary(job):
    """What filled the disk is gone when anybody looks."""
    with tempfile.TemporaryDirectory() as folder:
        fill(folder)
        import time; time.sleep(0.3)
    raise RuntimeError("could not write")

def mapped(job):
    """A file that is longer than the disk, written through the memory: SIGBUS."""
    with open(job["output"] + "/mapped", "w+b") as file:
        file.truncate(64 << 20)
        with mmap.mmap(file.fileno(), 64 << 20) as memory:
            memory[:] = b"x" * (64 << 20)

def whole(job):
    """A library that asks for all of a file first: the disk never gets full."""
    with open(job["output"] + "/whole", "wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, 64 << 20)
        except OSError:
            raise ValueError("the model cannot be saved") from None

def files(job):
    """No more files, though there are bytes."""
    try:
        for number in range(10000):
            open(f"{job['output']}/{number}", "w").close()
    except OSError:
        raise RuntimeError("unknown error in the writer") from None

def transform(job):
    """It looks well, and is cut short."""
    fill(job["output"])
    os.truncate(job["output"] + "/filled", os.path.getsize(job["output"] + "/filled") - 8192)
    return {}

def honest(job):
    raise RuntimeError("no such operator")
'''

SCRIPT = """
import json, sys
from pathlib import Path
from hone_runtime.contract.toolchain import Limits
from hone_runtime.contract.job import Job, JobInput
from kedro_hone.core.workers.host.run import call_worker

place, worker, function = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
model = JobInput(path=str(Path(worker).parent), format="onnx")
job = Job(function=function, worker=worker, adaptor="a", stage="compress", output=str(place / "out"), input=model)
found = call_worker(job, python=Path(sys.executable), toolchain=None, folder=place / "step", limits=Limits(seconds=60))
told = getattr(found, "failure", None)
print(json.dumps([told and told.value, told and told.transient, getattr(found, "reason", "")]))
"""


def call(folder: Path, function: str, *, options: str) -> list[object]:
    """Call a function of a worker whose folders are on a disk of its own."""
    (folder / "disk").mkdir()
    (folder / "worker").mkdir()
    (folder / "worker" / "worker.py").write_text(WORKER)
    (folder / "worker" / "weights").write_bytes(bytes(12 << 20))  # the model, larger than the disk
    command = [sys.executable, "-c", SCRIPT, str(folder / "disk"), str(folder / "worker" / "worker.py"), function]
    mount = f"mount -t tmpfs -o {options} tmpfs '{folder / 'disk'}'\nexec \"$@\""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", mount, "sh", *command]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
@pytest.mark.parametrize("function", ["swallowed", "words", "temporary", "mapped", "whole", "files", "transform"])
def test_it_is_a_full_disk_and_not_the_toolchains_failure(tmp_path, function):
    options = "size=16m,nr_inodes=300" if function == "files" else "size=8m"
    failure, transient, reason = call(tmp_path, function, options=options)
    assert (failure, transient) == ("disk-full", True), reason


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_with_room_a_failure_is_what_it_is(tmp_path):
    failure, transient, reason = call(tmp_path, "honest", options="size=64m")
    assert (failure, transient, reason) == ("compress", False, "RuntimeError: no such operator")
