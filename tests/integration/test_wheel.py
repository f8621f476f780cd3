"""The distribution holds what its users need, and works from a folder that has only a recipe."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hone_runtime.contract.catalogue import find_installed
from hone_runtime.errors import HoneError

ROOT = Path(__file__).parents[2]
STRANGER = ROOT / "docs" / "examples" / "mnn"
LINKED = {"adaptors": "adaptors", "nodes": "nodes", "pipelines": "pipelines", "testing": "tests/conformance/suite"}
"""The links in the package, and where they lead."""
TOOLCHAINS = [path.parent.name for path in sorted(ROOT.glob("adaptors/*/capabilities.yml"))]
PIPELINES = {"__default__", "assess", "build", "choose", "compare", "demo", "publish", "pull"}

LIST_PIPELINES = """
from pathlib import Path
from kedro.framework.project import configure_project, pipelines
import kedro_hone
assert Path(kedro_hone.__file__).is_relative_to(Path.cwd().parent), kedro_hone.__file__
configure_project("kedro_hone")
print(*pipelines)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """Copy what git would clone, its links as links."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "docs", *LINKED.values()):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def distributions(checkout, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(checkout)],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def wheel_files(distributions) -> set[str]:
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        return set(wheel.namelist())


@pytest.fixture(scope="module")
def sdist_files(distributions) -> set[str]:
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


@pytest.fixture(scope="module")
def project(distributions, tmp_path_factory) -> Path:
    """A folder with a recipe, next to an environment that holds the wheel and can see what the wheel depends on."""
    place = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    site = next((place / "venv").glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
    wheels = [str(next(distributions.glob("*.whl"))), str(build_stranger(place))]
    pip = [sys.executable, "-m", "pip", "--python", str(place / "venv")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", *wheels], check=True)
    shutil.copytree(ROOT / "conf", place / "project" / "conf")
    return place / "project"


def build_stranger(folder: Path) -> Path:
    """Build the wheel of the sample distribution; its source is copied, since a build writes next to it."""
    shutil.copytree(STRANGER, folder / "hone_mnn", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(folder / "hone_mnn")], check=True)
    return next(folder.glob("hone_mnn-*.whl"))


def call(project: Path, *arguments: str, **variables: str) -> str:
    python = project.parent / "venv" / "bin" / "python"
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "KEDRO_ENV"}}
    done = subprocess.run(
        [str(python), *arguments],
        cwd=project,
        env={**inherited, "DO_NOT_TRACK": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("toolchain", TOOLCHAINS)
def test_the_wheel_holds_every_toolchain(wheel_files, toolchain):
    folder = ROOT / "adaptors" / toolchain
    files = [
        path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    wanted = {f"kedro_hone/adaptors/{toolchain}/{path.as_posix()}" for path in files}

    lock = ["requirements.lock"] * getattr(find_installed(toolchain), "lockable", True)
    needed = (f"worker/hone_{toolchain}/__init__.py", *lock)
    assert {f"kedro_hone/adaptors/{toolchain}/{name}" for name in needed} <= wanted
    assert wanted <= wheel_files


@pytest.mark.parametrize("name", ["kedro_hone", "hone_runtime"])
def test_the_wheel_holds_every_file_of_the_package(wheel_files, name):
    package = ROOT / "src" / name
    found = {
        f"{name}/{Path(folder, file).relative_to(package).as_posix()}"
        for folder, _, files in os.walk(package, followlinks=True)
        for file in files
        if "__pycache__" not in folder
    }

    assert found - wheel_files == set()


def test_the_wheel_holds_nothing_else(wheel_files):
    assert {name.partition("/")[0] for name in wheel_files if ".dist-info/" not in name} == {
        "hone_runtime",
        "kedro_hone",
    }


@pytest.mark.parametrize("folder", LINKED)
def test_the_sdist_holds_the_linked_folders(sdist_files, folder):
    wanted = {
        f"src/kedro_hone/{folder}/{path.relative_to(ROOT / LINKED[folder]).as_posix()}"
        for path in (ROOT / LINKED[folder]).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert wanted
    assert wanted - sdist_files == set()


def test_kedro_finds_the_commands(project):
    text = call(project, "-m", "kedro_hone", "hone", "--help")

    assert all(command in text for command in ("routes", "toolchains", "report", "replay", "explain", "adaptor"))


def test_an_error_is_explained_by_the_command_at_its_end(project):
    error = HoneError("alias-unknown", "It failed.", why="So.", hint="Do this.")
    (command,) = re.findall(r"more: kedro-hone (.*)$", str(error))
    page = call(project, "-m", "kedro_hone", *command.split())

    assert page.startswith("# alias-unknown")
    assert "## What to do" in page
    assert "](" not in page


def test_the_pipelines_are_registered(project):
    assert set(call(project, "-c", LIST_PIPELINES).split()) == PIPELINES


def test_the_commands_belong_to_any_kedro_project(project):
    stranger = project.parent / "stranger"
    (stranger / "src" / "stranger").mkdir(parents=True)
    (stranger / "conf" / "base").mkdir(parents=True)
    (stranger / "conf" / "local").mkdir()
    (stranger / "pyproject.toml").write_text(
        '[tool.kedro]\npackage_name = "stranger"\nproject_name = "stranger"\nkedro_init_version = "1.7.0"\n'
    )
    (stranger / "src" / "stranger" / "__init__.py").touch()
    (stranger / "src" / "stranger" / "settings.py").touch()
    (stranger / "src" / "stranger" / "pipeline_registry.py").write_text("def register_pipelines():\n    return {}\n")

    assert "routes" in call(stranger, "-m", "kedro", "hone", "--help")


def test_the_commands_work_in_a_folder_that_is_no_kedro_project(project):
    """Hints name them as `kedro hone`, wherever an error occurred."""
    assert "onnxruntime" in call(project, "-m", "kedro", "hone", "toolchains")
    assert call(project, "-m", "kedro", "hone", "routes", "--json").lstrip().endswith("]\n")


@pytest.mark.toolchain
def test_the_wheel_of_a_stranger_is_found_and_passes_the_conformance_suite(project, environments):
    """A toolchain in a distribution of its own, with a lock of its own: no file of ours knows of it."""
    home = {"HONE_HOME": str(environments.root)}

    listed = call(project, "-m", "kedro_hone", "hone", "toolchains")
    tested = call(project, "-m", "kedro_hone", "hone", "adaptor", "test", str(STRANGER / "test_mnn.py"), **home)

    assert "mnn" in listed
    assert re.search(r"\d+ passed", tested), tested
    assert not re.search(r"failed|error", tested), tested
