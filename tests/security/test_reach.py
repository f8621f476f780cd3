"""What a worker reaches is what was promised, also where folders are links, and software is in unusual places."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kedro_hone.core.contract.toolchain import Limits
from kedro_hone.core.workers.host import reach, run
from kedro_hone.core.workers.host.job import Job, StepResult

LIMITS = Limits(seconds=120, memory_mb=1024, log_kb=64)

WORKER = """
import ctypes, errno, os, socket, subprocess, sys, threading

def attempt(what):
    try: return what()
    except OSError as error: return errno.errorcode[error.errno]

def write(job):
    for folder in (job["output"], os.path.realpath(job["output"])): open(folder + "/file", "a").write("x")
    open(job["temporary"] + "/moves", "w").close()
    os.rename(job["temporary"] + "/moves", job["output"] + "/moved")
    return {"outside": attempt(lambda: os.chmod("/" + job["aim"], 0o600)),
            "input": attempt(lambda: open(job["options"]["project"] + "/settings.py").read())}

def talk(job):
    s = socket.socket(socket.AF_UNIX); return {"talked": attempt(lambda: s.connect(job["daemon"]))}

def hamper(job):
    pid, libc = job["victim"], ctypes.CDLL(None, use_errno=True)
    def call(number, *arguments):
        if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), "")
    ioprio_set = 251 if os.uname().machine == "x86_64" else 30
    for own in (lambda: os.nice(1), lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
                lambda: call(ioprio_set, 1, 0, 2 << 13 | 5), lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
                lambda: os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0))): own()
    return {"hampered": [attempt(one) for one in (
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 5), lambda: os.setpriority(os.PRIO_USER, 0, 0),
        lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(pid), 5),
        lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
        lambda: os.sched_setparam(pid, os.sched_param(0)),
        lambda: call(ioprio_set, 1, pid, 3 << 13), lambda: call(ioprio_set, 3, os.getuid(), 2 << 13 | 4))]}
"""

UNSHARE = "import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x10020000))"
NAMESPACES = subprocess.run([sys.executable, "-S", "-c", UNSHARE], check=False).returncode == 0
"""Whether this kernel and container allow them, whatever we make of it."""


@pytest.fixture
def call(tmp_path):
    """Call a function in a real worker."""
    worker = tmp_path / "code" / "worker.py"
    worker.parent.mkdir()
    worker.write_text(WORKER)

    def call(function, *, folder=tmp_path / "step", python=Path(sys.executable), **more):
        more = {"output": str(folder / "output"), "temporary": str(folder / "temporary"), **more}
        job = Job(function=function, worker=str(worker), adaptor="evil", **more)
        result = run.call_worker(job, python=python, toolchain=None, folder=folder, limits=LIMITS)
        assert isinstance(result, StepResult), (result, Path(getattr(result, "log", "/dev/null")).read_text())
        return result

    return call


@pytest.mark.attack(
    what="changing the mode of a file outside, where the project's data folder is a link",
    who="worker",
    stopped_by="links are resolved before anything is mounted",
    feature="namespaces (Linux 5.12)",
)
@pytest.mark.parametrize("reads_project", [True, False])
@pytest.mark.parametrize("target", ["{}/disk", "../disk", "more", "{}/chain"])
def test_a_data_folder_that_is_a_link(call, tmp_path, target, reads_project):
    """Mounts through a link in a folder that is mounted already fail, and would take the namespaces with them."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project, tmp_path / "disk", project / "more"):
        folder.mkdir()
    (tmp_path / "chain").symlink_to("disk")
    (project / "data").symlink_to(target.format(tmp_path))
    (project / "settings.py").write_text("mine")
    outside.write_text("x")
    outside.chmod(0o644)
    options = {"project": str(project) if reads_project else "relative"}
    result = call("write", folder=project / "data" / "step", options=options, aim=str(outside).lstrip("/"))
    assert result.isolation["namespaces"] == NAMESPACES
    assert result.notes["input"] == ("mine" if reads_project else "ENOENT")
    assert (project / "data" / "step" / "output" / "file").read_text() == "xx"
    if not NAMESPACES:
        pytest.skip("this kernel or container has no namespaces")
    assert result.notes["outside"] == "ENOENT"
    assert outside.stat().st_mode & 0o777 == 0o644


@pytest.mark.attack(
    what="asking a daemon by its socket in a folder that the worker reads",
    who="worker",
    stopped_by="what is no socket is mounted over it",
    feature="namespaces (Linux 5.12)",
)
@pytest.mark.parametrize("layers", [reach.LAYERS, ("namespaces",)], ids="-".join)
def test_asking_a_daemon_by_a_socket_in_a_readable_folder(call, tmp_path, monkeypatch, layers):
    """A read-only mount keeps nobody from connecting."""
    if not NAMESPACES:
        pytest.skip("this kernel or container has no namespaces")
    monkeypatch.setattr(reach, "LAYERS", layers)
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to("project")
    for name in ("project/daemon", "link/daemon2"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / name))
            server.listen()
            options = {"project": str(tmp_path / "project")}
            assert call("talk", options=options, daemon=str(tmp_path / name)).notes["talked"] == "ECONNREFUSED"


VICTIM = """
import ctypes, os, time
libc = ctypes.CDLL(None)
assert libc.capset((ctypes.c_int * 2)(0x20080522, 0), bytes(24)) == 0  # otherwise Linux protects a process of root
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.attack(
    what="slowing down other processes of the user, while we measure",
    who="worker",
    stopped_by="these calls are refused for other processes",
    feature="seccomp",
)
def test_slowing_down_other_processes(call, tmp_path):
    """What a worker sets for itself and its threads goes on working."""
    command = [sys.executable, "-S", "-c", VICTIM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as victim:
        assert victim.stdout.readline() == b"ready\n"
        try:
            result = call("hamper", victim=victim.pid)
            if not result.isolation["seccomp"] and os.uname().machine not in {"x86_64", "aarch64"}:
                pytest.skip("no filter for this machine")
            assert result.notes["hampered"] == ["EPERM"] * 7
            assert os.getpriority(os.PRIO_PROCESS, victim.pid) == os.getpriority(os.PRIO_PROCESS, 0)
            assert os.sched_getscheduler(victim.pid) == os.SCHED_OTHER
        finally:
            victim.kill()
