"""Interpreters that a recipe names for a toolchain: real ones, started by real workers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore

WORKER = "import vendor\n"


@pytest.fixture
def toolchain(tmp_path) -> Toolchain:
    """A toolchain that no index has, and its worker."""
    folder = tmp_path / "tool"
    (folder / "worker").mkdir(parents=True)
    (folder / "requirements.in").write_text("vendor>=2,<3\nabsent; python_version < '3'\n")
    (folder / "worker" / "__init__.py").write_text(WORKER)
    return Toolchain(name="tool", folder=folder)


@pytest.fixture
def python(tmp_path) -> Path:
    """An interpreter in which a vendor's package is installed."""
    venv = tmp_path / "vendor"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    install(venv / "bin" / "python", "2.1")
    return venv / "bin" / "python"


def install(python: Path, version: str, *, text: str = "") -> None:
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    for old in packages.glob("vendor-*/METADATA"):
        old.unlink()
        old.parent.rmdir()
    info = packages / f"vendor-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: Vendor\nVersion: {version}\n")
    (packages / "vendor.py").write_text(text)


@pytest.fixture
def ensure(tmp_path, toolchain, python):
    """Return the environment of the toolchain with the interpreter that is named for it."""

    def call(named=python, **changes):
        store = EnvironmentStore(tmp_path / "home", named={"tool": named})
        return store.ensure(replace(toolchain, **changes), build=False)

    return call


def test_what_is_named_is_the_environment_and_is_checked_once(ensure, tmp_path, python):
    found = ensure()

    assert isinstance(found, Environment), found
    assert (found.python, found.origin, found.own) == (str(python), "named", False)
    assert found.versions == {"python": sys.version.split()[0], "vendor": "2.1"}
    (log,) = (tmp_path / "home" / "logs").glob("tool-*/log")
    log.unlink()
    assert ensure() == found
    assert not log.exists()


def test_its_key_follows_what_is_installed_in_it(ensure, python):
    first = ensure()
    install(python, "2.2")
    second = ensure()

    assert second.versions["vendor"] == "2.2"
    assert first.key != second.key


@pytest.mark.parametrize(
    ("version", "text", "words"),
    [
        ("3.0", "", "does not meet its requirements: vendor<3,>=2 is needed, and 3.0 is installed"),
        ("2.1", "import cuda_driver", "tool cannot be imported: ModuleNotFoundError: No module named 'cuda_driver'"),
        ("2.1", "raise SystemExit(3)", "tool cannot be imported: SystemExit: 3"),
        ("2.1", "import os; os._exit(7)", "cannot run a worker: ended with exit code 7 and no result"),
    ],
)
def test_one_that_does_not_do_is_a_failure_that_says_why_and_holds_until_it_is_mended(
    ensure, python, version, text, words
):
    install(python, version, text=text)
    failed = ensure()

    assert isinstance(failed, Failed), failed
    assert failed.failure is FailureClass.INSTALL
    assert f"{python}, named for tool, " in failed.reason
    assert words in failed.reason
    assert Path(failed.log).name == "log"
    Path(failed.log).unlink()
    assert ensure() == failed
    assert not Path(failed.log).exists(), "it was started again"

    install(python, "2.1")
    assert isinstance(ensure(), Environment)


def test_where_there_is_no_interpreter_nothing_is_started(ensure, tmp_path):
    for place in (tmp_path / "nowhere" / "python", tmp_path):
        failed = ensure(place)
        assert isinstance(failed, Failed), failed
        assert failed.reason == f"{place}, named for tool, cannot be started"
    assert not (tmp_path / "home" / "logs").exists()


def test_a_program_that_is_no_python_is_a_failure(ensure):
    failed = ensure(Path("/bin/true"))

    assert isinstance(failed, Failed), failed
    assert failed.reason == "/bin/true, named for tool, cannot run a worker: ended with exit code 0 and no result"
