from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toolchains.toy import adaptor as toy
from toolchains.toy.model import make_model

from hone_runtime.contract.job import Job, JobInput
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.artifact import Shape
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.workers.host import session as worker_session
from kedro_hone.core.workers.host.run import open_session

HANG = 600
"""Seconds after which something is taken to hang."""

WORKER = """
import os, signal, sys, time
import numpy as np

class Session:
    def __init__(self, static): self.static, self.calls = static, 0
    def run(self, feeds):
        x = feeds["x"]; self.calls += 1
        what = x[0, 0]
        if what == -1: raise ValueError("no ones")
        if what == -2: os.kill(os.getpid(), signal.SIGSEGV)
        if what == -3: time.sleep(3600)
        if what == -4: b"".join(b"\\1" * (64 << 20) for _ in range(64))
        if what == -5: b"\\1" * (300 << 20)  # for a moment
        print("noise")
        rows = np.full((len(x), 1), len(x))
        return {"double": x * 2, "rows/of call": rows, "file": np.float32(self.calls)}

class Prepared(Session):
    def prepare(self, feeds):
        def call(): raise RuntimeError("called as prepared")
        return call

class OnDevice(Session):
    waits = 0
    def synchronize(self): self.waits += 1; time.sleep(0.02)
    def run(self, feeds): return {"calls": np.array([self.calls]), "waits": np.array([self.waits])} | super().run(feeds)

class Counted(Session):
    def count_operators(self, feeds):
        found = self.static
        if isinstance(found, str): raise RuntimeError(found)
        return {"fp32": {"Add": len(feeds["x"])}} if found is True else found

def load(job):
    if job["options"].get("counts"): return Counted(job["options"]["counts"])
    if job["options"].get("device"): return OnDevice(False)
    if job["options"].get("broken"): raise RuntimeError("corrupt model")
    if job["options"].get("prepared"): return Prepared(False)
    return Session(bool(job["input"]["static_shapes"]))
"""


@pytest.fixture
def open_(tmp_path):
    sessions = []

    def open_(*, seconds=HANG, memory_mb=1024, python=Path(sys.executable), **more):
        (tmp_path / "worker.py").write_text(WORKER)
        artifact = make_model(tmp_path / "model").model_copy(update={"static_shapes": more.pop("static_shapes", ())})
        if fixed := more.pop("fixed", None):
            spec = artifact.inputs[0].model_copy(update={"shape": (fixed, 2)})
            artifact = artifact.model_copy(update={"inputs": (spec,)})
        job = Job(
            function="load",
            worker=tmp_path / "worker.py",
            adaptor="t",
            input=JobInput.of(artifact, tmp_path / "model"),
            **more,
        )
        limits = Limits(seconds=seconds, memory_mb=memory_mb, log_kb=64)
        sessions.append(open_session(job, python=python, folder=tmp_path / "session", limits=limits))
        return sessions[-1]

    yield open_
    for session in sessions:
        session.close()


def feed(path: Path, first: float = 0.0, rows: int = 5) -> Path:
    x = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    x[0, 0] = first
    np.savez(path, x=x)
    return path


def read(path: Path):
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_load_tells_the_cold_start(tmp_path):
    artifact = make_model(tmp_path / "model", slow=20)
    job = Job(
        function="load",
        worker=str(toy.TOOLCHAIN.worker),
        adaptor="toy",
        input=JobInput.of(artifact, tmp_path / "model"),
        reads=(tmp_path / "feeds.npz",),
    )
    np.savez(tmp_path / "feeds.npz", x=np.zeros((3, 4), np.float32))
    opened = open_session(job, python=Path(sys.executable), folder=tmp_path / "s", limits=Limits(seconds=HANG))
    with closing(opened) as session:
        loaded = session.load(tmp_path / "feeds.npz")
        assert isinstance(loaded, float)
        assert loaded >= 40  # the first call naps for that long
        assert session.arm("batch3", tmp_path / "feeds.npz") is None
        times = session.time("batch3", 2, warmup=1)
        assert len(times) == 2
        assert min(times) >= 40e6
    assert not (tmp_path / "s" / "temporary").exists()


def test_run_in_chunks_and_at_once(open_, tmp_path):
    session = open_()
    assert isinstance(session.load(), float)
    feeds, output = feed(tmp_path / "f.npz"), tmp_path / "session" / "o.npz"
    assert session.run(feeds, output, 2) is None
    arrays = read(output)
    assert arrays["rows/of call"].ravel().tolist() == [2, 2, 2, 2, 1]
    assert np.array_equal(arrays["double"], read(feeds)["x"] * 2)
    assert arrays["file"].tolist() == [1, 2, 3]
    assert session.run(feeds, output) is None
    assert read(output)["rows/of call"].ravel().tolist() == [5] * 5


def test_a_static_model_gets_a_padded_last_chunk(open_, tmp_path):
    session = open_(static_shapes=(Shape(name="batch2", sizes={"batch": 2}),))
    session.load()
    feeds, output = feed(tmp_path / "f.npz"), tmp_path / "session" / "o.npz"
    assert session.run(feeds, output, 2) is None
    assert read(output)["rows/of call"].ravel().tolist() == [2] * 5
    assert np.array_equal(read(output)["double"], read(feeds)["x"] * 2)


@pytest.mark.parametrize(("fixed", "batch", "calls"), [(2, 2, [2] * 5), (1, 1, [1] * 5), (None, 2, [2, 2, 2, 2, 1])])
def test_a_model_of_a_fixed_batch_gets_one_too(open_, tmp_path, fixed, batch, calls):
    session = open_(fixed=fixed)
    session.load()
    feeds, output = feed(tmp_path / "f.npz"), tmp_path / "session" / "o.npz"
    assert session.run(feeds, output, batch) is None
    assert read(output)["rows/of call"].ravel().tolist() == calls
    assert np.array_equal(read(output)["double"], read(feeds)["x"] * 2)


def test_an_exception_is_a_value_and_the_session_lives_on(open_, tmp_path):
    session = open_()
    session.load()
    output = tmp_path / "session" / "o.npz"
    failed = session.run(feed(tmp_path / "bad.npz", first=-1), output)
    assert (failed.failure, failed.reason) == (FailureClass.CRASH, "ValueError: no ones")
    assert session.run(feed(tmp_path / "good.npz"), output) is None
    assert isinstance(session.arm("gone", tmp_path / "gone.npz"), Failed)
    assert "gone" in session.time("gone", 1).reason


def test_a_model_that_cannot_be_loaded(open_):
    failed = open_(options={"broken": True}).load()
    assert (failed.failure, failed.reason) == (FailureClass.LOAD, "RuntimeError: corrupt model")


@pytest.mark.parametrize(
    ("first", "failure", "reason"),
    [
        (-2, FailureClass.CRASH, "SIGSEGV"),
        (-3, FailureClass.TIME_OUT, "2 seconds"),
        (-4, FailureClass.OUT_OF_MEMORY, "512 MiB"),
    ],
)
def test_death_is_a_value_and_stays(open_, tmp_path, first, failure, reason):
    session = open_(memory_mb=512)
    session.load()
    pid = session._guarded.pid
    assert session.arm("shape", feed(tmp_path / "f.npz", first=first)) is None
    if failure is FailureClass.TIME_OUT:  # only now, since the worker needs an unknown time to start
        session._call = replace(session._call, limits=replace(session._call.limits, seconds=2))
    failed = session.time("shape", 1)
    assert failed.failure is failure
    assert reason in failed.reason
    assert session.load() == failed
    session.pause()
    session.resume()
    assert session.memory_bytes() == 0
    assert not lives(pid)


def test_a_session_that_prepares_its_calls_is_timed_by_them(open_, tmp_path):
    session = open_(options={"prepared": True})
    session.load()
    session.arm("b5", feed(tmp_path / "feeds.npz"))
    timed = session.time("b5", calls=1)

    assert isinstance(timed, Failed)
    assert "called as prepared" in timed.reason
    assert session.run(tmp_path / "feeds.npz", tmp_path / "session" / "out.npz") is None


def test_a_timed_call_ends_when_the_device_is_done(open_, tmp_path):
    session, output = open_(options={"device": True}), tmp_path / "session" / "o.npz"
    loaded = session.load(feed(tmp_path / "feeds.npz"))
    session.arm("b5", tmp_path / "feeds.npz")
    times = session.time("b5", calls=3, warmup=2)
    assert min(times) >= 20e6, "the wait belongs to the call"
    assert loaded >= 20
    session.run(tmp_path / "feeds.npz", output)
    assert (read(output)["calls"].item(), read(output)["waits"].item()) == (6, 6)


def test_operators_are_counted_for_the_feeds(open_, tmp_path):
    session = open_(options={"counts": True})
    session.load()
    assert session.count_operators(feed(tmp_path / "f.npz", rows=3), seconds=HANG) == {"fp32": {"Add": 3}}


def test_operators_of_a_session_that_cannot_count_are_not_known(open_, tmp_path):
    session = open_()
    session.load()
    assert session.count_operators(feed(tmp_path / "f.npz"), seconds=HANG) is None


def test_a_count_that_raises_leaves_the_session_as_it_was(open_, tmp_path):
    session, feeds = open_(options={"counts": "no memory"}), feed(tmp_path / "f.npz")
    session.load()
    assert session.count_operators(feeds, seconds=HANG).reason == "RuntimeError: no memory"
    assert session.arm("b", feeds) is None
    assert len(session.time("b", 2)) == 2


@pytest.mark.parametrize(
    "counts",
    [
        {"int3": {"Add": 1}},
        {"int8": {"Add": -1}},
        {"int8": {"Add": 10**30}},
        {"int8": {"Add": "many"}},
        [1],
        {"int8": 3},
    ],
    ids=str,
)
def test_counts_that_are_none_are_refused(open_, tmp_path, counts):
    session = open_(options={"counts": counts})
    session.load()
    failed = session.count_operators(feed(tmp_path / "f.npz"), seconds=HANG)
    assert "cannot be read" in failed.reason
    assert session.ended


def test_a_killed_worker(open_, tmp_path):
    session = open_()
    session.load()
    os.kill(session._guarded.pid, signal.SIGKILL)
    failed = session.run(feed(tmp_path / "f.npz"), tmp_path / "session" / "o.npz")
    assert (failed.failure, failed.reason) == (FailureClass.KILLED, "killed by SIGKILL, not by kedro-hone")


def test_a_worker_that_cannot_be_started(open_, tmp_path):
    failed = open_(python=tmp_path / "no-python").load()
    assert failed.failure is FailureClass.INSTALL


def test_pause_stops_the_worker_and_not_the_guard(open_, tmp_path, monkeypatch):
    session = open_()
    session.load()
    session.arm("shape", feed(tmp_path / "f.npz"))
    session.pause()
    session.pause()
    state = Path(f"/proc/{session._guarded.pid}/stat").read_text().rpartition(")")[2].split()
    assert state[0] == "T"
    assert Path(f"/proc/{state[1]}/stat").read_text().rpartition(")")[2].split()[0] in "SR"
    assert session.memory_bytes() > 0
    with pytest.raises(RuntimeError, match="paused"):
        session.time("shape", 1)
    now = time.monotonic  # longer than the limit of a command passes: standing still costs nothing
    monkeypatch.setattr(worker_session.time, "monotonic", lambda: now() + 2 * HANG)
    session.resume()
    assert len(session.time("shape", 3, warmup=2)) == 3


def test_close_ends_a_paused_worker_and_twice_is_once(open_):
    session = open_()
    session.load()
    session.pause()
    pid = session._guarded.pid
    session.close()
    session.close()
    assert not lives(pid)
    with pytest.raises(RuntimeError, match="closed"):
        session.load()


def test_its_end_has_the_peak_of_memory_and_not_what_is_left_of_it(open_, tmp_path):
    session = open_()
    session.load()
    assert session.run(feed(tmp_path / "f.npz", first=-5), tmp_path / "session" / "o.npz") is None
    assert session.memory_bytes() < 300 << 20
    assert session.close().peak_memory_bytes > 300 << 20


def test_two_sessions_do_not_mix(tmp_path):
    names = ["a", "b"]
    jobs = [
        Job(
            function="load",
            worker=str(toy.TOOLCHAIN.worker),
            adaptor=name,
            input=JobInput.of(make_model(tmp_path / name, seed=seed), tmp_path / name),
            reads=(tmp_path / "f.npz",),
        )
        for seed, name in enumerate(names)
    ]
    feeds = tmp_path / "f.npz"
    np.savez(feeds, x=np.ones((2, 4), np.float32))
    sessions = [
        open_session(job, python=Path(sys.executable), folder=tmp_path / f"s{job.adaptor}", limits=Limits(seconds=HANG))
        for job in jobs
    ]
    first, second = sessions
    outputs = [tmp_path / f"s{name}" / "o.npz" for name in names]
    with closing(first):
        with closing(second):
            first.load()
            second.load()
            assert first.run(feeds, outputs[0]) is second.run(feeds, outputs[1]) is None
            assert not np.array_equal(read(outputs[0])["y"], read(outputs[1])["y"])
        assert first.run(feeds, outputs[0]) is None


@pytest.mark.parametrize("outputs", ["x", "np.repeat(['a', 'b'], [len(x), 0])", "x * np.nan"])
def test_what_threads_get_is_what_each_gets_alone(tmp_path, open_, outputs, monkeypatch):
    code = f"import numpy as np\nclass Session:\n    def run(self, feeds): x = feeds['x']; return {{'y': {outputs}}}\n"
    monkeypatch.setattr(sys.modules[__name__], "WORKER", f"{code}def load(job): return Session()\n")
    session = open_()
    assert isinstance(session.load(), float)
    assert session.run_together(feed(tmp_path / "f.npz"), threads=3, calls=4) == 0


def test_a_run_with_a_limit_of_its_own_ends_the_worker_then_and_others_are_not_bounded_by_it(
    tmp_path, open_, monkeypatch
):
    code = "import time\nclass Session:\n"
    code += "    def run(self, feeds): time.sleep(abs(float(feeds['x'].flat[0]))); return feeds\n"
    monkeypatch.setattr(sys.modules[__name__], "WORKER", f"{code}def load(job): return Session()\n")
    session = open_()
    assert isinstance(session.load(), float)
    assert session.run(feed(tmp_path / "f.npz", first=0.2), tmp_path / "session" / "o.npz", seconds=60) is None
    assert not session.ended
    failed = session.run(feed(tmp_path / "g.npz", first=999.0), tmp_path / "session" / "o.npz", seconds=0.3)
    assert (failed.failure, session.ended) == (FailureClass.TIME_OUT, True)
    assert session.run(tmp_path / "f.npz", tmp_path / "session" / "o.npz") is failed


def test_each_call_of_a_thread_that_gives_something_else_is_counted(open_, tmp_path):
    session = open_()  # one of its outputs is the number of the call
    assert isinstance(session.load(), float)
    assert session.run_together(feed(tmp_path / "f.npz"), threads=2, calls=3) == 6
    failed = session.run_together(feed(tmp_path / "g.npz", first=-1.0), threads=1, calls=1)
    assert isinstance(failed, Failed)
    assert "no ones" in failed.reason


def test_an_infinity_does_not_hide_what_threads_get_wrong(open_, tmp_path, monkeypatch):
    code = "import itertools, numpy as np\ncount = itertools.count()\nclass Session:\n"
    code += "    def run(self, feeds): return {'y': np.array([[-np.inf, next(count)]] * len(feeds['x']))}\n"
    monkeypatch.setattr(sys.modules[__name__], "WORKER", f"{code}def load(job): return Session()\n")
    session = open_()
    assert isinstance(session.load(), float)
    assert session.run_together(feed(tmp_path / "f.npz"), threads=2, calls=3) == 6


def test_what_a_worker_draws_begins_with_the_seed_of_its_job(open_, tmp_path, monkeypatch):
    code = "import random, numpy as np\nclass Session:\n    def __init__(self): self.own = random.random()\n"
    code += "    def run(self, feeds): return {'y': np.array([[self.own, np.random.random()]])}\n"
    monkeypatch.setattr(sys.modules[__name__], "WORKER", f"{code}def load(job): return Session()\n")
    drawn = []
    for number, seed in enumerate((5, 5, 6)):
        session, output = open_(seed=seed, output=str(tmp_path / f"o{number}")), tmp_path / f"o{number}" / "y.npz"
        assert isinstance(session.load(), float)
        assert session.run(feed(tmp_path / "f.npz"), output) is None
        drawn.append(read(output)["y"])
    assert np.array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).all()


CLIENTS = """
import threading
import numpy as np
meeting = threading.Barrier(3)
class Session:
    def run(self, feeds): meeting.wait(300); return {"y": feeds["x"]}
def load(job): return Session()
"""


def test_clients_call_at_once_and_their_block_is_timed(open_, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "WORKER", CLIENTS)  # a call returns when three run
    session = open_()
    assert isinstance(session.load(), float)
    assert session.arm("bulk", feed(tmp_path / "f.npz"), clients=3) is None
    block = session.time_together("bulk", calls=12, warmup=3)

    assert len(block.times) == 12
    assert 0 < max(block.times) <= block.wall


@pytest.mark.parametrize("wall", ["5", "0", "'x'", "None"])
def test_a_block_that_is_shorter_than_a_call_is_no_reply(open_, tmp_path, monkeypatch, wall):
    code = "import hone_runtime.worker.clients as clients\n"
    code += f"clients.Clients.time = lambda self, calls: ([9] * calls, {wall})\n"
    monkeypatch.setattr(sys.modules[__name__], "WORKER", code + CLIENTS.replace("meeting.wait(300)", "0"))
    session = open_()
    assert isinstance(session.load(), float)
    assert session.arm("bulk", feed(tmp_path / "f.npz"), clients=3) is None
    failed = session.time_together("bulk", calls=3)

    assert (failed.failure, session.ended) == (FailureClass.BAD_OUTPUT, True)
