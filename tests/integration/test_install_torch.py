"""The script by which ``make`` installs one of PyTorch's builds, with pip and packages that hold nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from empty_wheel import make_wheel

SCRIPT = Path(__file__).parents[2] / "tools" / "install-torch"
PIP = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check"]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with both locks, whose packages are found."""
    locks, links = tmp_path / "adaptors" / "pytorch", tmp_path / "links"
    locks.mkdir(parents=True)
    links.mkdir()
    for build, version in (("cpu", "1.0+cpu"), ("cuda", "1.0")):
        digest = make_wheel(links, "honetoy", version)
        (locks / f"requirements-{build}.lock").write_text(f"honetoy=={version} --hash=sha256:{digest}\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    return tmp_path


def install(project: Path) -> tuple[int, str, list[str]]:
    """Return the exit status, what was printed as errors, and what was installed."""
    command = [SCRIPT, *PIP, "--target", "installed", "--no-deps", "--require-hashes", "--requirement"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, sorted(path.name for path in project.glob("installed/*.dist-info"))


def test_the_cpu_build_is_installed_where_it_is_found(project):
    assert install(project) == (0, "", ["honetoy-1.0+cpu.dist-info"])


def test_the_build_for_cuda_is_installed_where_there_is_no_cpu_build(project):
    next(project.glob("links/*+cpu*")).unlink()
    status, told, installed = install(project)
    assert (status, installed) == (0, ["honetoy-1.0.dist-info"])
    assert told == "pip finds no CPU build of PyTorch; installing the much larger one for CUDA.\n"


def test_a_cpu_build_with_a_wrong_digest_ends_the_installation_with_pips_reason(project):
    (project / "adaptors/pytorch/requirements-cpu.lock").write_text(f"honetoy==1.0+cpu --hash=sha256:{'0' * 64}\n")
    status, told, installed = install(project)
    assert (status, installed) == (1, [])
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in told


def test_a_build_for_cuda_that_is_not_found_either_ends_the_installation(project):
    for wheel in project.glob("links/*"):
        wheel.unlink()
    status, told, installed = install(project)
    assert (status, installed) == (1, [])
    assert "No matching distribution found for honetoy==1.0\n" in told
