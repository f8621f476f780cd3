"""A worker in the hands of an attacker cannot hang, crash or bloat the host by what it sends or leaves behind."""

from __future__ import annotations

import io
import os
import resource
import sys
import threading
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.contract.job import Job
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.outcome import Failed, FailureClass
from hone_runtime.values.regular import read_regular
from kedro_hone.core.workers.host.replies import DEEPEST_REPLY, parse_object
from kedro_hone.core.workers.host.run import call_worker, open_session
from kedro_hone.search.comparison.agreement import compare_outputs
from kedro_hone.search.comparison.arrays import UNREADABLE, open_arrays

LIMITS = Limits(seconds=20, memory_mb=2048, log_kb=64)
HUGE = 3 << 30

LEAVES = """
import os, sys

def leave(job):
    folder = sys.argv[1]
    path, what = os.path.join(folder, "result.json"), job["what"]
    if what == "a FIFO": os.mkfifo(path)
    if what == "a directory": os.mkdir(path)
    if what == "a link to a device": os.symlink("/dev/zero", path)
    if what == "a link to nowhere": os.symlink("nowhere", path)
    if what == "a sparse file":
        with open(path, "wb") as stream: stream.truncate(job["size"])
    if what == "deep brackets":
        with open(path, "w") as stream: stream.write("[" * 200_000 + "]" * 200_000)
    if what == "deep objects":
        with open(path, "w") as stream: stream.write('{"notes":' * 100 + "{}" + "}" * 100)
    if what == "no JSON":
        with open(path, "wb") as stream: stream.write(b"\\xff\\xfe")
    if what == "an error of a strange kind":
        with open(path, "w") as stream: stream.write('{"error": [1]}')
    if what == "a log that is a FIFO":
        os.unlink(os.path.join(folder, "log"))
        os.mkfifo(os.path.join(folder, "log"))
        os.kill(os.getpid(), 6)
    os._exit(0)
"""

REPLIES = """
import os, sys, time

class Session:
    def run(self, feeds): return feeds

def load(job):
    what, replies = job["what"], int(sys.argv[3])
    text = {
        "a list": b"[1,2]\\n", "no JSON": b"hello\\n", "an empty line": b"\\n",
        "deep brackets": b"[" * 200_000 + b"\\n",
        "no cold start": b"{}\\n", "a cold start that is none": b'{"cold_start_ms": NaN}\\n',
        "a cold start in the past": b'{"cold_start_ms": -1}\\n', "an error of a strange kind": b'{"error": [1]}\\n',
    }.get(what, b"")
    os.write(replies, text)
    while what == "a flood without a newline": os.write(replies, b"x" * 65536)
    if what == "a few bytes": os.write(replies, b"{")
    time.sleep(3600)
"""


def start(tmp_path: Path, code: str, what: str, **more) -> Job:
    (tmp_path / "worker.py").write_text(code)
    return Job(function="leave", worker=str(tmp_path / "worker.py"), adaptor="evil", what=what, **more)


@pytest.mark.attack(
    what="a result that is a FIFO, a link, 3 GiB, or 200,000 brackets",
    who="worker",
    stopped_by="regular files only, bounded in size and depth",
)
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("a FIFO", "not a regular file"),
        ("a directory", "not a regular file"),
        ("a link to a device", "symbolic links"),
        ("a link to nowhere", "symbolic links"),
        ("a sparse file", "larger than"),
        ("deep brackets", "levels"),
        ("deep objects", "levels"),
        ("no JSON", "cannot be read"),
        ("an error of a strange kind", "cannot be read"),
    ],
)
def test_what_is_left_as_the_result(tmp_path, what, words):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job = start(tmp_path, LEAVES, what, size=HUGE)
    failed = call_worker(job, python=Path(sys.executable), toolchain=None, folder=tmp_path / "step", limits=LIMITS)
    assert isinstance(failed, Failed)
    assert failed.failure is FailureClass.BAD_OUTPUT
    assert words in failed.reason
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10  # KiB


@pytest.mark.attack(what="a log that is a FIFO", who="worker", stopped_by="regular files only")
def test_a_log_that_is_a_fifo(tmp_path):
    job = start(tmp_path, LEAVES, "a log that is a FIFO")
    failed = call_worker(job, python=Path(sys.executable), toolchain=None, folder=tmp_path / "step", limits=LIMITS)
    assert isinstance(failed, Failed)
    assert failed.failure is FailureClass.CRASH


@pytest.mark.attack(
    what="a reply that is no object, too deep, or without an end",
    who="worker",
    stopped_by="replies are checked, and bounded in size and depth",
)
@pytest.mark.parametrize(
    "what",
    [
        "a list",
        "no JSON",
        "an empty line",
        "deep brackets",
        "no cold start",
        "a cold start that is none",
        "a cold start in the past",
        "an error of a strange kind",
        "a flood without a newline",
    ],
)
def test_what_is_sent_as_a_reply(tmp_path, what):
    job = start(tmp_path, REPLIES, what)
    with closing(open_session(job, python=Path(sys.executable), folder=tmp_path / "session", limits=LIMITS)) as session:
        failed = session.load()
        assert isinstance(failed, Failed)
        assert failed.failure is FailureClass.BAD_OUTPUT
        assert "reply cannot be read" in failed.reason
        assert session.load() == failed  # what it sends next is not taken for a reply


@pytest.mark.attack(what="a reply that is sent for ever", who="worker", stopped_by="the guard's limit of time")
def test_a_reply_that_never_ends_meets_the_time_limit(tmp_path):
    job, limits = start(tmp_path, REPLIES, "a few bytes"), replace(LIMITS, seconds=1)
    with closing(open_session(job, python=Path(sys.executable), folder=tmp_path / "s", limits=limits)) as session:
        failed = session.load()
        assert isinstance(failed, Failed)
        assert failed.failure is FailureClass.TIME_OUT


def test_depth_and_size_are_bounded_exactly(tmp_path):
    for depth in (DEEPEST_REPLY - 1, DEEPEST_REPLY):
        text = b'{"a":' * depth + b"1" + b"}" * depth
        if depth < DEEPEST_REPLY:
            assert parse_object(text)
        else:
            with pytest.raises(ValueError, match="levels"):
                parse_object(text)
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", limit=5) == b"12345"
    with pytest.raises(ValueError, match="larger than"):
        read_regular(tmp_path / "file", limit=4)


def write_arrays(path: Path, how: str) -> None:
    good = np.arange(6, dtype=np.float32).reshape(3, 2)
    if how == "a FIFO":
        os.mkfifo(path)
    elif how == "a link":
        np.savez(path.with_name("elsewhere.npz"), y=good)
        path.symlink_to("elsewhere.npz")
    elif how == "compressed zeros":
        np.savez_compressed(path, y=np.zeros((1 << 24,), np.float32))
    elif how == "a pickle":
        np.savez(path, y=np.array([object], dtype=object))
    elif how == "cut off":
        np.savez(path, y=good)
        path.write_bytes(path.read_bytes()[:-40])
    elif how == "a shape of terabytes":
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 1 << 10)}
        )
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("y.npy", header.getvalue())
    elif how == "one file many times":
        np.savez(path, y=good)
        with zipfile.ZipFile(path) as old:
            content = old.read("y.npy")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("y.npy", content)
            for number in range(200):  # entries of the directory that share the first one's bytes
                entry = zipfile.ZipInfo(f"y{number}.npy")
                shared = archive.infolist()[0]
                entry.CRC, entry.file_size, entry.compress_size = shared.CRC, shared.file_size, shared.file_size
                entry.header_offset = shared.header_offset
                archive.filelist.append(entry)


@pytest.mark.attack(
    what="predictions that are a zip bomb, a pickle, a FIFO, or say terabytes",
    who="worker",
    stopped_by="arrays are bounded, stored, and read without pickles",
)
@pytest.mark.parametrize(
    "how",
    ["a FIFO", "a link", "compressed zeros", "a pickle", "cut off", "a shape of terabytes", "one file many times"],
)
def test_what_is_left_as_predictions(tmp_path, how):
    np.savez(tmp_path / "expected.npz", y=np.arange(6, dtype=np.float32).reshape(3, 2))
    write_arrays(tmp_path / "found.npz", how)
    found: list[object] = []
    source = tmp_path / "expected.npz"

    def compare() -> None:
        found.append(compare_outputs(tmp_path / "found.npz", reference=source, feeds=source, outputs=()))

    thread = threading.Thread(target=compare, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    (fault,) = found
    assert fault.failure is FailureClass.BAD_OUTPUT
    assert fault.explain("batch1").startswith("the predictions at batch1 cannot be read")


def test_plain_predictions_are_read(tmp_path):
    np.savez(tmp_path / "plain.npz", y=np.ones(3))
    with open_arrays(tmp_path / "plain.npz") as arrays:
        assert arrays["y"].tolist() == [1, 1, 1]
    with pytest.raises(UNREADABLE), open_arrays(tmp_path / "none.npz"):
        pass


SWAPS = """
import json, os, shutil, sys

def swap(job):
    path = os.path.join(sys.argv[1], "job.json")
    os.unlink(path)
    if job["how"] == "text":
        with open(path, "w") as stream: json.dump({**job, "reads": ["/"], "output": job["victim"]}, stream)
    if job["how"] == "link": os.symlink(job["victim"], path)
    if job["how"] == "directory": os.mkdir(path)
    if job["how"] == "closed": os.chmod(sys.argv[1], 0o500)
    return {}
"""


@pytest.mark.attack(
    what="a worker that changes its job.json, for `kedro hone replay` to read and write elsewhere",
    who="worker",
    stopped_by="the host writes it again when the worker is gone",
)
@pytest.mark.parametrize("how", ["text", "link", "directory", "closed"])
def test_a_worker_that_changes_its_own_job(tmp_path, how):
    worker, victim = tmp_path / "code" / "worker.py", tmp_path / "victim"
    worker.parent.mkdir()
    worker.write_text(SWAPS)
    victim.write_text("untouched")
    job = Job(function="swap", worker=str(worker), adaptor="evil", how=how, victim=str(victim)[1:])
    call_worker(job, python=Path(sys.executable), toolchain=None, folder=tmp_path / "step", limits=LIMITS)
    path = tmp_path / "step" / "job.json"
    temporary = str(tmp_path / "step" / "temporary")
    assert Job.model_validate_json(read_regular(path)) == job.model_copy(update={"temporary": temporary})
    assert victim.read_text() == "untouched"
