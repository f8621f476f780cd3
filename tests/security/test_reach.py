"""What a worker reaches is what was promised, also where folders are links, and software is in unusual places."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kedro_hone.core.contract.toolchain import Limits
from kedro_hone.core.workers.host import run
from kedro_hone.core.workers.host.job import Job, StepResult

LIMITS = Limits(seconds=120, memory_mb=1024, log_kb=64)

WORKER = """
import errno, os, socket, subprocess, sys

def attempt(what):
    try: return what()
    except OSError as error: return errno.errorcode[error.errno]

def write(job):
    for folder in (job["output"], os.path.realpath(job["output"])): open(folder + "/file", "a").write("x")
    open(job["temporary"] + "/moves", "w").close()
    os.rename(job["temporary"] + "/moves", job["output"] + "/moved")
    return {"outside": attempt(lambda: os.chmod("/" + job["aim"], 0o600)),
            "input": attempt(lambda: open(job["options"]["project"] + "/settings.py").read())}
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
