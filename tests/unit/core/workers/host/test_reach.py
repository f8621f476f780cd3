"""Software that variables and interpreters name never opens the home folder or the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from hone_runtime.contract.job import Job
from kedro_hone.core.workers.host import reach


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    home = tmp_path / "home" / "me"
    (home / "project" / "conf").mkdir(parents=True)
    for name in ("bin", "lib", "Documents"):
        (home / name).mkdir()
    (home / "cc").write_text("")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "project")
    return home


def find_reads(home: Path, variables: dict[str, str], python: Path = Path("/usr/bin/python3")) -> set[str]:
    job = Job(function="load", worker="/w/worker.py", adaptor="a", temporary="/t")
    return set(reach.find_reach(job, python=python, folder=Path("/s"), variables=variables)["reads"])


@pytest.mark.attack(
    what="reading the home folder or the project, in which a compiler, a library or an interpreter is",
    who="worker",
    stopped_by="only the parts of such a folder that have programs and libraries can be read",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
@pytest.mark.parametrize("name", ["CC", "PATH", "LD_LIBRARY_PATH", "CUDA_HOME"])
@pytest.mark.parametrize("place", ["", "..", "project", "link"])
def test_variables_that_name_the_home_folder_or_the_project(home, tmp_path, name, place):
    (home / "link").symlink_to(home)
    wide = home / place
    text = f"/usr/bin:{wide}" if name != "CC" else str(wide / "cc")
    reads = find_reads(home, {name: text})
    assert not {str(path) for path in (wide, home, home.parent, home / "project", tmp_path)} & reads
    if name == "CC":
        assert str(wide / "cc") in reads
    assert not any("Documents" in path or "conf" in Path(path).parts for path in reads)


def test_an_interpreter_in_the_home_folder_brings_its_libraries(home):
    python = home / "bin" / "python"
    python.write_text("")
    reads = find_reads(home, {}, python)
    assert str(home) not in reads
    assert {str(home / "bin"), str(home / "lib")} <= reads


def test_software_below_the_home_folder_is_read_whole(home):
    tool = home / "tools" / "cuda"
    tool.mkdir(parents=True)
    assert str(tool) in find_reads(home, {"CUDA_HOME": str(tool)})


def test_folders_in_shared_memory_are_not_mounted_as_all_of_it():
    job = Job(function="load", worker="/w/worker.py", adaptor="a", temporary="/dev/shm/t", output="/dev/shm/o")  # noqa: S108
    found = reach.find_reach(job, python=Path("/usr/bin/python3"), folder=Path("/s"), variables={})
    assert found["mounts"] == ["/s", "/dev/shm/t", "/dev/shm/o"]  # noqa: S108


def test_an_interpreter_that_was_started_by_a_roundabout_path(tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    python = reach.find_python(tmp_path / "benchmarks" / ".." / "venv" / "bin" / "python")
    assert python == tmp_path / "venv" / "bin" / "python"
    assert python.is_symlink()
