from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kernel import find_layers
from toolchains.toy import adaptor as toy
from toolchains.toy.model import make_model

from hone_runtime.contract.catalogue import forget_registrations, register
from hone_runtime.contract.job import Call, Job, JobInput, StepResult
from hone_runtime.contract.toolchain import UNTRACKED, Limits, Toolchain
from hone_runtime.values.outcome import Failed, FailureClass, Refused, Trespass
from kedro_hone.core.workers.host.run import call_worker, make_environment, open_session

HANG = 600
"""Seconds after which something is taken to hang."""

WORKER = """
import ctypes, errno, os, signal, subprocess, sys, time
from pathlib import Path

def fine(job): return {"seen": job["extra"]}
def nothing(job): return None
def refuse(job): return {"refused": "too small"}
def refuse_by_name(job): return {"refused": "data is outside", "slug": "model-external-data"}
def refuse_without_reason(job): return {"refused": ""}
def raise_refusal(job):
    from hone_runtime.worker.refusal import UnsuitedError
    raise UnsuitedError("it has operators of com.shop", slug=job.get("slug", ""))
def idle(job): return {"nothing_to_do": "same graph"}
def fail(job): return {"failed": {"class": "numerics", "reason": "NaN in the weights"}}
def fail_oddly(job): return {"failed": {"class": "no such class", "reason": "?"}}
def no_dict(job): return [1]
def no_json(job): return {"self": job["nowhere"] if "nowhere" in job else object()}
def fault(job): raise ValueError("the first line\\nthe second")
def fault_at(job): raise ValueError("Exception from core.cpp:84:\\nAt report.cpp:151:\\nIt failed:\\n\\n- the cause\\n")
def fault_somewhere(job): raise ValueError("Check 'false' failed at report.cpp:151:")
def fault_with_list(job): raise ValueError("missing keys:\\n  one,\\n  two")
def disk_full(job): raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")
def disk_full_in_words(job): raise RuntimeError("write failed: No space left on device")
def memory(job): raise MemoryError
def memory_in_words(job): raise RuntimeError("DefaultCPUAllocator: can't allocate memory: tried 9 bytes")
def allocate(job): return {"n": len(bytearray(1 << 45))}
def missing(job): import surely_not_installed_anywhere
def leave(job): sys.exit(3)
def leave_hard(job): os._exit(3)
def leave_quietly(job): os._exit(0)
def kill_self(job): os.kill(os.getpid(), signal.SIGKILL)
def abort(job): os.abort()
def bad_alloc(job):
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr)
    os.abort()
def segfault(job): ctypes.string_at(0)
def hang(job): time.sleep(3600)
def chatter(job):
    print("the beginning")
    for _ in range(2000): print("x" * 1023)
    print("the end")
def survey(job):
    import resource
    return {
        "environment": dict(os.environ), "path": sys.path, "cwd": os.getcwd(),
        "core": resource.getrlimit(resource.RLIMIT_CORE), "addresses": resource.getrlimit(resource.RLIMIT_AS),
        "stdin": sys.stdin.read(), "session": os.getsid(0) == os.getpid(), "ours": "kedro_hone" in sys.modules,
    }
def write(job):
    tried = {}
    for path in job["paths"]:
        try:
            Path(path).write_text("x"); tried[path] = True
        except OSError as error:
            tried[path] = error.errno not in (errno.EACCES, errno.EROFS)
    return tried
def move(job):
    inside = Path(job["temporary"]) / "a"; inside.write_text("x")
    inside.rename(Path(job["output"]) / "a")
    (Path(job["output"]) / "deep").mkdir()
    (Path(job["output"]) / "a").rename(Path(job["output"]) / "deep" / "a")
def daemons(job):
    pids = []
    for _ in range(2):
        pids.append(subprocess.Popen(["sleep", "3600"], start_new_session=True).pid)
    Path(job["pids"]).write_text(" ".join(map(str, [os.getpid(), *pids])))
    if job.get("stay"): time.sleep(3600)
    return {"pids": pids}
def stop_guard(job):
    try:
        os.kill(os.getppid(), signal.SIGSTOP); return {"stopped": True}
    except PermissionError:
        return {"stopped": False}
"""


@pytest.fixture
def worker(tmp_path) -> Path:
    path = tmp_path / "worker.py"
    path.write_text(WORKER)
    return path


@pytest.fixture
def call(worker, tmp_path):
    def call(function, *, seconds=HANG, memory_mb=2048, log_kb=64, stage="compile", **more):
        job = Job(function=function, worker=str(worker), adaptor="toy.test", stage=stage, **more)
        return call_worker(
            job,
            python=Path(sys.executable),
            toolchain=None,
            folder=tmp_path / "step",
            limits=Limits(seconds=seconds, memory_mb=memory_mb, log_kb=log_kb),
        )

    return call


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids, seconds=HANG):
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(lives, pids)):
        time.sleep(0.02)
    return [pid for pid in pids if lives(pid)]


def test_a_result_comes_back_with_unknown_keys_of_the_job(call, tmp_path):
    result = call("fine", extra={"a": [1, None]})
    assert isinstance(result, StepResult)
    assert result.notes == {"seen": {"a": [1, None]}}
    assert result.end.peak_memory_bytes > 1 << 20
    assert result.end.left_behind == result.end.log_left_out == 0
    assert {path.name for path in (tmp_path / "step").iterdir()} == {"job.json", "result.json", "log"}
    again = Job.model_validate_json((tmp_path / "step" / "job.json").read_text())
    assert again.function == "fine"


def test_a_worker_file_may_have_parts_beside_it(call, worker):
    worker.write_text("from . import worker_words\ndef say(job):\n    return {'said': worker_words.HELLO}\n")
    worker.with_name("worker_words.py").write_text("from .worker_more import HELLO\n")
    worker.with_name("worker_more.py").write_text("HELLO = 'hello'\n")
    assert call("say").notes == {"said": "hello"}


def test_no_notes_are_empty_notes(call):
    assert call("nothing").notes == {}


def test_flags_become_values(call):
    assert call("refuse") == Refused(by="toy.test", reason="too small")
    assert call("refuse_by_name") == Refused(by="toy.test", slug="model-external-data", reason="data is outside")
    assert call("raise_refusal") == Refused(by="toy.test", reason="it has operators of com.shop")
    assert call("raise_refusal", slug="model-external-data").slug == "model-external-data"
    assert call("idle") == Refused(by="toy.test", slug="nothing-to-do", reason="same graph")
    failed = call("fail")
    assert (failed.failure, failed.reason) == (FailureClass.NUMERICS, "NaN in the weights")


@pytest.mark.parametrize(
    ("function", "failure", "reason"),
    [
        ("fault", FailureClass.COMPILE, "ValueError: the first line"),
        (
            "refuse_without_reason",
            FailureClass.COMPILE,
            "ValueError: refuse_without_reason refused the model without a",
        ),
        ("fault_at", FailureClass.COMPILE, "ValueError: It failed: - the cause"),
        ("fault_somewhere", FailureClass.COMPILE, "ValueError: Check 'false' failed at report.cpp:151:"),
        ("fault_with_list", FailureClass.COMPILE, "ValueError: missing keys: one, two"),
        ("no_such_function", FailureClass.COMPILE, "no attribute 'no_such_function'"),
        ("no_dict", FailureClass.COMPILE, "not a dict"),
        ("no_json", FailureClass.COMPILE, "not JSON"),
        ("fail_oddly", FailureClass.BAD_OUTPUT, "cannot be read"),
        ("disk_full", FailureClass.DISK_FULL, "No space left"),
        ("disk_full_in_words", FailureClass.DISK_FULL, "No space left"),
        ("memory", FailureClass.OUT_OF_MEMORY, "MemoryError"),
        ("memory_in_words", FailureClass.OUT_OF_MEMORY, "can't allocate"),
        ("missing", FailureClass.INSTALL, "surely_not_installed_anywhere"),
        ("leave", FailureClass.COMPILE, "SystemExit: 3"),
        ("leave_hard", FailureClass.CRASH, "exit code 3"),
        ("leave_quietly", FailureClass.CRASH, "exit code 0 and no result"),
        ("kill_self", FailureClass.KILLED, "SIGKILL"),
        ("abort", FailureClass.CRASH, "SIGABRT"),
        ("bad_alloc", FailureClass.OUT_OF_MEMORY, "SIGABRT"),
        ("segfault", FailureClass.CRASH, "SIGSEGV"),
    ],
)
def test_every_end_has_its_class(call, function, failure, reason):
    failed = call(function)
    assert isinstance(failed, Failed)
    assert failed.failure is failure, failed
    assert reason in failed.reason
    assert Path(failed.log).exists()


def test_the_class_of_an_exception_is_that_of_the_stage(call):
    assert call("fault", stage="convert").failure is FailureClass.CONVERT
    assert call("fault", stage="load").failure is FailureClass.LOAD
    assert call("fault", stage="score").failure is FailureClass.CRASH


def test_the_traceback_is_in_the_log_even_of_a_crash(call):
    assert "the second" in Path(call("fault").log).read_text()
    assert "segfault" in Path(call("segfault").log).read_text()


def test_time_out(call):
    failed = call("hang", seconds=0.5)
    assert (failed.failure, failed.reason) == (FailureClass.TIME_OUT, "ran longer than 0.5 seconds")


@pytest.mark.attack(what="a worker that allocates without end", who="worker", stopped_by="the guard's limit of memory")
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="no limit of addresses where there is a GPU")
def test_one_huge_allocation_is_refused_before_it_is_touched(call):
    assert call("allocate", memory_mb=512).failure is FailureClass.OUT_OF_MEMORY


def test_a_stale_result_is_not_read(call, tmp_path):
    call("fine", extra=1)
    assert call("leave_quietly").failure is FailureClass.CRASH


def test_a_missing_interpreter_and_a_missing_worker_are_values(worker, tmp_path):
    job = Job(function="fine", worker=str(worker), adaptor="toy.test", stage="compile")
    arguments = {"toolchain": None, "folder": tmp_path / "step", "limits": Limits(seconds=HANG)}
    failed = call_worker(job, python=tmp_path / "no" / "python", **arguments)
    assert failed.failure is FailureClass.INSTALL
    assert "python" in failed.reason
    gone = job.model_copy(update={"worker": str(tmp_path / "gone.py")})
    assert call_worker(gone, python=Path(sys.executable), **arguments).failure is FailureClass.COMPILE


def test_a_folder_that_cannot_be_written_is_a_value(worker, tmp_path):
    (tmp_path / "file").write_text("")
    job = Job(function="fine", worker=str(worker), adaptor="toy.test")
    failed = call_worker(
        job, python=Path(sys.executable), toolchain=None, folder=tmp_path / "file" / "step", limits=Limits()
    )
    assert isinstance(failed, Failed)
    assert failed.reason.startswith("the worker cannot be started: ")
    assert failed.log is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_from_a_worker_that_cannot_be_started(worker, tmp_path, monkeypatch, number):
    def refuse(*_args, **_more):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("kedro_hone.core.workers.host.run.Guarded", refuse)
    job = Job(function="fine", worker=str(worker), adaptor="toy.test")
    arguments = {"python": Path(sys.executable), "toolchain": None, "folder": tmp_path / "step", "limits": Limits()}
    assert call_worker(job, **arguments).failure is FailureClass.DISK_FULL
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert open_session(job, **arguments).failure is FailureClass.DISK_FULL
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_log_keeps_both_ends(call, tmp_path):
    result = call("chatter", log_kb=16)
    log = (tmp_path / "step" / "log").read_text()
    assert result.end.log_left_out > 1 << 20
    assert f"[{result.end.log_left_out} bytes left out]" in log
    assert log.startswith("the beginning\n")
    assert log.endswith("the end\n")
    assert len(log) < 17 << 10


def test_where_a_worker_runs(call, tmp_path, monkeypatch):
    for name in (
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "MLFLOW_TRACKING_PASSWORD",
        "PYTHONPATH",
        "CUDA_API_KEY",
        "CUDA_AUTH",
        "NVIDIA_NGC_PASS",
    ):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    seen = call("survey", threads=3).notes
    environment, scratch = seen["environment"], str(tmp_path / "step" / "temporary")
    assert "hush" not in json.dumps(environment)
    assert "hush" not in (tmp_path / "step" / "job.json").read_text()
    assert environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "3"
    assert environment["HOME"] == seen["cwd"] == scratch
    assert environment["TMPDIR"] in {"/hone-tmp", scratch}  # a short name where there are namespaces
    assert environment["TORCHINDUCTOR_CACHE_DIR"].startswith(scratch)
    assert not Path(scratch).exists()
    assert seen["core"] == [0, 0]
    assert seen["session"]
    assert seen["stdin"] == ""
    assert not seen["ours"]
    assert not any(path.startswith(str(Path(call_worker.__code__.co_filename).parent)) for path in seen["path"])


def test_a_trusted_directory_is_on_the_import_path(call, tmp_path):
    assert str(tmp_path) in call("survey", trust=("pickle", str(tmp_path))).notes["path"]
    assert str(tmp_path) not in call("survey", trust=("pickle",)).notes["path"]


@pytest.mark.attack(
    what="a worker that reads secrets in its variables", who="worker", stopped_by="variables are an allow-list"
)
def test_the_toolchains_variables_win():
    toolchain = Toolchain(name="t", folder=Path(), environment={"OMP_NUM_THREADS": "7"})
    job = Job(function="f", worker="w", adaptor="a", threads=2)
    inherited = {"PATH": "/bin", "LC_ALL": "C", "GITHUB_TOKEN": "hush", "OTHER": "x"}
    variables = make_environment(job, toolchain=toolchain, inherited=inherited)
    assert variables["OMP_NUM_THREADS"] == "7"
    assert int(variables["MALLOC_TRIM_THRESHOLD_"]) > 1 << 32
    assert variables["MKL_NUM_THREADS"] == "2"
    assert {"PATH", "LC_ALL"} <= set(variables)
    assert not {"GITHUB_TOKEN", "OTHER"} & set(variables)


def test_no_worker_sends_anything_home_unless_the_user_chose_so():
    """Also of a toolchain that does not say so: adaptors of several import ONNX Runtime."""
    job, toolchain = Job(function="f", worker="w", adaptor="a"), Toolchain(name="t", folder=Path())
    assert make_environment(job, toolchain=toolchain, inherited={}).items() >= UNTRACKED.items()
    own = Toolchain(name="t", folder=Path(), environment={"ORT_DISABLE_TELEMETRY": "1"})
    chosen = make_environment(job, toolchain=own, inherited={"ORT_DISABLE_TELEMETRY": "0"})
    assert chosen["ORT_DISABLE_TELEMETRY"] == "0"


@pytest.mark.attack(
    what="a worker that writes outside its folders",
    who="worker",
    stopped_by="Landlock",
    feature="Landlock (Linux 5.19)",
)
def test_a_worker_writes_only_inside(call, tmp_path):
    scratch, output = tmp_path / "scratch", tmp_path / "output"
    inside = [str(output / "a"), str(scratch / "b"), str(tmp_path / "step" / "c"), "/dev/null"]
    outside = [str(tmp_path / "outside"), str(tmp_path / "worker.py")]
    result = call("write", output=str(output), temporary=str(scratch), paths=inside + outside)
    if find_layers()["landlock"] < 2:
        pytest.skip("this kernel has no Landlock")
    assert result.notes == dict.fromkeys(inside, True) | dict.fromkeys(outside, False)
    assert scratch.exists()


@pytest.mark.parametrize(
    ("told", "failure", "trespass"),
    [
        ("wrote-input", FailureClass.BAD_OUTPUT, Trespass.INPUT),
        ("wrote-outside", FailureClass.BAD_OUTPUT, Trespass.OUTSIDE),
        (None, FailureClass.COMPILE, None),
        ("nonsense", FailureClass.COMPILE, None),
        ({}, FailureClass.COMPILE, None),
    ],
)
def test_a_denied_write_is_told_by_a_value(tmp_path, told, failure, trespass):
    error = {"type": "PermissionError", "message": "[Errno 13] no", "errno": 13, "trespass": told}
    job = Job(function="transform", worker="worker.py", adaptor="a.b")
    failed = Call(job, tmp_path, Limits()).explain_error(error, FailureClass.COMPILE)
    assert (failed.failure, failed.trespass) == (failure, trespass)


def test_files_move_between_the_workers_own_folders(call, tmp_path):
    assert isinstance(call("move", output=str(tmp_path / "output")), StepResult)
    assert (tmp_path / "output" / "deep" / "a").read_text() == "x"


@pytest.mark.attack(
    what="a worker that stops its guard",
    who="worker",
    stopped_by="Landlock's scope of signals",
    feature="Landlock ABI 6 (Linux 6.12)",
)
def test_a_worker_cannot_stop_its_guard(call):
    result = call("stop_guard")
    if find_layers()["landlock"] < 6:
        pytest.skip("this kernel cannot scope signals")
    assert result.notes == {"stopped": False}


@pytest.mark.attack(
    what="a worker that changes its input", who="worker", stopped_by="the input's bytes are compared afterwards"
)
def test_a_changed_input_is_a_bad_output(tmp_path, monkeypatch):
    source = make_model(tmp_path / "source")
    worker = tmp_path / "worker.py"
    worker.write_text("def transform(job): pass\n")
    job = Job(
        function="transform",
        worker=str(worker),
        adaptor="t",
        input=JobInput.of(source, tmp_path / "source"),
        output=tmp_path / "out",
        produces="toy",
    )
    arguments = {"python": Path(sys.executable), "toolchain": None, "folder": tmp_path / "s", "limits": Limits()}
    original = subprocess.Popen

    def start_and(meddle):  # where a kernel has no Landlock, the worker itself could do this
        def start(*args, **kwargs):
            meddle()
            return original(*args, **kwargs)

        monkeypatch.setattr("kedro_hone.core.workers.host.guarded.subprocess.Popen", start)

    start_and(lambda: os.utime(tmp_path / "source" / "weights.npz"))
    assert isinstance(call_worker(job, **arguments), StepResult)  # touched, but every byte is the same
    start_and(lambda: (tmp_path / "source" / "weights.npz").write_bytes(b"other"))
    failed = call_worker(job, **arguments)
    assert (failed.failure, failed.reason) == (FailureClass.BAD_OUTPUT, "changed its input: weights.npz")


def test_what_was_saved_is_described(tmp_path):
    source = make_model(tmp_path / "source")
    job = Job(
        function="transform",
        worker=str(toy.TOOLCHAIN.worker),
        adaptor="toy.compile",
        stage="compile",
        input=JobInput.of(source, tmp_path / "source"),
        output=str(tmp_path / "output"),
        options=toy.COMPILE.options().model_dump(),
        produces="toy",
    )
    arguments = {
        "python": Path(sys.executable),
        "toolchain": toy.TOOLCHAIN,
        "folder": tmp_path / "s",
        "limits": Limits(),
    }
    result = call_worker(job, **arguments)
    assert result.described["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
    unknown = call_worker(job.model_copy(update={"produces": "of-another"}), **arguments)
    assert unknown.described is None


def test_an_output_that_cannot_be_read_back_is_a_bad_output(tmp_path):
    worker = tmp_path / "worker.py"
    worker.write_text("def transform(job): pass\ndef describe(job): raise RuntimeError('truncated')\n")
    job = Job(function="transform", worker=str(worker), adaptor="t", output=str(tmp_path / "out"), produces="toy")
    failed = call_worker(
        job, python=Path(sys.executable), toolchain=None, folder=tmp_path / "step", limits=Limits(seconds=HANG)
    )
    assert failed.failure is FailureClass.BAD_OUTPUT
    assert failed.reason == "the saved files cannot be read back: RuntimeError: truncated"


@pytest.mark.attack(
    what="a worker that leaves daemons behind",
    who="worker",
    stopped_by="the guard is the subreaper of all its processes",
)
def test_processes_that_are_left_behind_are_killed_and_counted(call, tmp_path):
    result = call("daemons", pids=str(tmp_path / "step" / "pids"))
    assert result.end.left_behind == 2
    assert not any(map(lives, result.notes["pids"]))


@pytest.mark.attack(what="a worker that never ends, with daemons", who="worker", stopped_by="the guard's limit of time")
def test_nothing_outlives_a_time_out(call, tmp_path):
    pids = tmp_path / "step" / "pids"
    for seconds in (4, 30, 240):  # the worker has to start within it
        assert call("daemons", pids=str(pids), stay=True, seconds=seconds).failure is FailureClass.TIME_OUT
        if pids.exists() and pids.read_text():
            break
    assert pids.read_text()
    assert not any(map(lives, map(int, pids.read_text().split())))


HOST = """
import os, sys, time
from pathlib import Path
from hone_runtime.contract.toolchain import Limits
from hone_runtime.contract.job import Job
from kedro_hone.core.workers.host.run import call_worker
worker, folder, fork = sys.argv[1:]
if fork == "fork":
    import threading
    def later():
        while not Path(folder, "pids").exists():  # then there is a guard, and its pipe
            time.sleep(0.01)
        if os.fork() == 0:  # a child of the host that keeps the other end of the guard's pipe
            Path(folder, "fork").write_text(str(os.getpid()))
            time.sleep(3600)
            os._exit(0)
    threading.Thread(target=later).start()
job = Job(function="daemons", worker=worker, adaptor="t", pids=folder + "/pids", stay=True)
call_worker(job, python=Path(sys.executable), toolchain=None, folder=Path(folder), limits=Limits(seconds=3600))
"""


@pytest.mark.attack(
    what="a worker that goes on when the host is killed", who="worker", stopped_by="the guard ends with the host"
)
@pytest.mark.parametrize("way", ["plain", "fork"])
def test_nothing_outlives_a_killed_host(worker, tmp_path, way):
    folder = tmp_path / "step"
    source = str(Path(__file__).parents[5] / "src")
    host = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOST), str(worker), str(folder), way],
        env={**os.environ, "PYTHONPATH": source},
    )
    awaited = [folder / "pids"] + ([folder / "fork"] if way == "fork" else [])
    end = time.monotonic() + HANG
    while not all(path.exists() and path.read_text() for path in awaited) and time.monotonic() < end:
        time.sleep(0.02)
    try:
        pids = [int(pid) for pid in (folder / "pids").read_text().split()]
        guard = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
        assert all(map(lives, [*pids, guard]))
        host.kill()
        host.wait()
        assert wait_until_gone([*pids, guard]) == []
    finally:
        if way == "fork":
            os.kill(int((folder / "fork").read_text()), signal.SIGKILL)


def test_a_killed_guard_takes_its_worker_with_it(worker, tmp_path):
    folder = tmp_path / "step"
    worker.write_text(
        "import os, signal, time\n"
        "from pathlib import Path\n"
        "def transform(job):\n"
        "    Path(job['output'], 'pids').write_text(f'{os.getpid()} {os.getppid()}')\n"
        "    time.sleep(3600)\n"
    )
    kill = """
import os, sys, time
while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read()):
    time.sleep(0.02)
os.kill(int(open(sys.argv[1]).read().split()[1]), 9)
"""
    killer = subprocess.Popen([sys.executable, "-c", kill, str(tmp_path / "out" / "pids")])
    job = Job(function="transform", worker=str(worker), adaptor="t", output=str(tmp_path / "out"))
    failed = call_worker(job, python=Path(sys.executable), toolchain=None, folder=folder, limits=Limits(seconds=3600))
    killer.wait()
    assert failed.failure is FailureClass.KILLED
    assert wait_until_gone([int((tmp_path / "out" / "pids").read_text().split()[0])]) == []


def test_the_packages_that_a_toolchain_uses_are_importable_whatever_the_job(tmp_path):
    """Jobs are made in many places, and none of them names what a worker imports."""
    texts = {
        "last": "NAME = 'last'\n",
        "used": "from hone_last import NAME\n",
        "user": "import hone_used\n"
        "def name(job): return {'name': hone_used.NAME}\n"
        "def load(job): raise ValueError(hone_used.NAME)\n",
    }
    made = {}
    for name, uses in {"last": (), "used": ("last",), "user": ("used",)}.items():
        package = tmp_path / name / "worker" / f"hone_{name}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(texts[name])
        made[name] = replace(toy.TOOLCHAIN, name=name, folder=tmp_path / name, uses=uses)
    register(made["last"])
    register(made["used"])
    user, source = made["user"], make_model(tmp_path / "model")
    common = {"python": Path(sys.executable), "limits": Limits(), "toolchain": user}
    try:
        told = call_worker(
            Job(function="name", adaptor="user", worker=str(user.worker)), folder=tmp_path / "call", **common
        )
        job = Job(
            function="load", adaptor="user", worker=str(user.worker), input=JobInput.of(source, tmp_path / "model")
        )
        session = open_session(job, folder=tmp_path / "session", **common)
        with closing(session):
            loaded = session.load()
    finally:
        forget_registrations()

    assert told.notes["name"] == "last"
    assert "last" in loaded.reason
