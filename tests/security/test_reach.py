"""What a worker reaches is what was promised, also where folders are links, and software is in unusual places."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest
from kernel import find_layers

from hone_runtime.contract.job import Job, StepResult
from hone_runtime.contract.toolchain import Limits
from kedro_hone.core.workers.host import reach, run

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

def look(job):
    for name in job.get("imports", ()): __import__(name)
    return {"seen": [attempt(lambda: open("/" + aim).read()) for aim in job["aims"]]}

def compile(job):
    return {"said": subprocess.run([job["compiler"]], capture_output=True, text=True).stdout}

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
    assert result.end.isolation["namespaces"] == NAMESPACES
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


@pytest.mark.attack(
    what="a socket of another user, where no worker can go, that takes the namespaces from all of them",
    who="nobody",
    stopped_by="what a worker cannot reach need not be hidden",
    feature="namespaces (Linux 5.12)",
)
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_socket_of_another_user_in_a_readable_folder(call, tmp_path):
    private = tmp_path / "project" / "private"
    private.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(private / "daemon"))
        server.listen()
        private.chmod(0o700)
        os.chown(private, 12345, 12345)
        result = call("talk", options={"project": str(private.parent)}, daemon=str(private / "daemon"))
    assert result.end.isolation["namespaces"] == NAMESPACES
    assert result.notes["talked"] == "EACCES"


@pytest.mark.attack(
    what="a socket whose name has a line break and goes on with the name of a file, so that this file is hidden",
    who="nobody",
    stopped_by="only sockets are hidden",
    feature="namespaces (Linux 5.12)",
)
def test_a_socket_with_a_line_break_in_its_name_hides_no_file(call, tmp_path):
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as server:
        project = Path(short) / "project"
        project.mkdir()
        (project / "settings.py").write_text("mine")
        name = Path(f"{short}/d\nz {project}/settings.py")
        name.parent.mkdir(parents=True)
        server.bind(str(name))
        server.listen()
        aim = str(tmp_path / "outside").lstrip("/")
        result = call("write", folder=project / "data" / "step", options={"project": str(project)}, aim=aim)
        assert result.end.isolation["namespaces"] == NAMESPACES
        assert result.notes["input"] == "mine"


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
            if not result.end.isolation["seccomp"] and os.uname().machine not in {"x86_64", "aarch64"}:
                pytest.skip("no filter for this machine")
            assert result.notes["hampered"] == ["EPERM"] * 7
            assert os.getpriority(os.PRIO_PROCESS, victim.pid) == os.getpriority(os.PRIO_PROCESS, 0)
            assert os.sched_getscheduler(victim.pid) == os.SCHED_OTHER
        finally:
            victim.kill()


@pytest.fixture(params=[reach.LAYERS, ("landlock", "seccomp")], ids="-".join)
def layers(request, monkeypatch):
    """Both layers that hide files."""
    monkeypatch.setattr(reach, "LAYERS", request.param)
    return request.param


@pytest.fixture
def denied(call, tmp_path):
    """Whether a worker gets none of these files, in which there is something."""

    def denied(*names, **more):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("secret")
        result = call("look", aims=[str(tmp_path / name).lstrip("/") for name in names], **more)
        there = find_layers()
        if there["landlock"] < 2 and not (there["namespaces"] and "namespaces" in reach.LAYERS):
            pytest.skip("this kernel or container hides no files")
        return all(seen in {"ENOENT", "EACCES"} for seen in result.notes["seen"]) or result.notes

    return denied


@pytest.mark.attack(
    what="reading the credentials of a project whose root is installed for editing",
    who="worker",
    stopped_by="of such a project, its packages can be read",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
def test_a_project_that_is_installed_for_editing(denied, tmp_path, monkeypatch, layers):
    project = tmp_path / "project"
    for file in ("pyproject.toml", "mine/__init__.py", "single.py", "conf/base/catalog.yml"):
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).touch()
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    (site / "mine.pth").write_text(f"{project}\n")
    monkeypatch.setattr(sys, "executable", str(python))
    files = "project/conf/local/credentials.yml", "project/.env", "project/data/rows.csv"
    assert denied(*files, python=python, imports=["mine", "single"]) is True


@pytest.mark.attack(
    what="reading the home where an interpreter was installed in it",
    who="worker",
    stopped_by="next to an interpreter, its programs and libraries can be read",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
@pytest.mark.parametrize("prefix", ["home", "home/.local", "disk"])
def test_a_home_in_which_there_is_an_interpreter(denied, tmp_path, monkeypatch, prefix, layers):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    home, libraries = tmp_path / prefix, Path(sys.base_prefix) / "lib"
    for folder in ("bin", "lib"):
        (home / folder).mkdir(parents=True)
    python = home / "bin" / "python3"
    shutil.copy(Path(sys.executable).resolve(), python)
    name = f"python3.{sys.version_info.minor}"
    (home / "lib" / name).symlink_to(libraries / name)
    files = f"{prefix}/.ssh/id", f"{prefix}/.netrc", "home/.local/share/keyrings/login"
    assert denied(*files, python=python, options={"libraries": str(libraries)}) is True


@pytest.mark.usefixtures("layers")
@pytest.mark.parametrize(("name", "linked"), [("g++", False), ("clang", True), ("mycc", True)])
def test_a_compiler_in_an_unusual_place_works(call, tmp_path, monkeypatch, name, linked):
    """As of environment modules, Spack or Homebrew: found by ``PATH``, with its parts next to it."""
    software = tmp_path / "software" / "gcc"
    for folder in ("bin", "libexec"):
        (software / folder).mkdir(parents=True)
    part, program = software / "libexec" / "cc1plus", software / "bin" / name
    part.write_text("#!/bin/sh\necho compiled\n")
    program.write_text('#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/../libexec/cc1plus"\n')
    for file in (part, program):
        file.chmod(0o755)
    found = program.parent
    if linked:
        found = tmp_path / "brew" / "bin"
        found.mkdir(parents=True)
        (found / name).symlink_to(program)
    monkeypatch.setenv("PATH", f"{found}:{os.environ['PATH']}")
    if name == "mycc":
        monkeypatch.setenv("CXX", f"{name} -O2")
    assert call("compile", compiler=name).notes["said"] == "compiled\n"
