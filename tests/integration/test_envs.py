"""Environments that are really built, from the package index."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.environments.store import Environment, EnvironmentStore, environment_key
from kedro_hone.core.values.outcome import Failed, FailureClass

SOURCE = Path(__file__).parents[2] / "src"
BUILDER = """
import sys
from pathlib import Path
from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.environments.store import EnvironmentStore
print(EnvironmentStore(Path(sys.argv[1])).ensure(Toolchain(name="tiny", folder=Path(sys.argv[2]))).model_dump_json())
"""

pytestmark = pytest.mark.toolchain


@pytest.fixture
def toolchain(tmp_path) -> Toolchain:
    return make_toolchain(tmp_path / "tiny")


@pytest.fixture
def store(tmp_path) -> EnvironmentStore:
    return EnvironmentStore(tmp_path / "home")


def make_toolchain(folder: Path, lock: str = "six==1.16.0\n", ranges: str = "six==1.16.0\n") -> Toolchain:
    folder.mkdir()
    (folder / "requirements.in").write_text(ranges)
    (folder / "requirements.lock").write_text(lock)
    return Toolchain(name="tiny", folder=folder)


def start_builder(store: EnvironmentStore, toolchain: Toolchain) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(store.root), str(toolchain.folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def ask(environment: Environment) -> str:
    """Let the environment's interpreter tell its version of six."""
    command = [environment.python, "-I", "-c", "import six; print(six.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def list_processes_with(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in line:
            found.append(line)
    return found


def wait_until(condition) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def test_an_environment_is_built_found_and_repaired(store, toolchain):
    built = store.ensure(toolchain)
    assert isinstance(built, Environment), built
    assert built.own
    assert ask(built) == "1.16.0"
    assert built.versions["six"] == "1.16.0"
    assert built.key == environment_key(toolchain)
    record = store.root / "environments" / built.key / "record.json"
    written = record.read_text()

    (store.root / "environments" / built.key / "venv" / "mark").write_text("not built again")
    assert store.ensure(toolchain) == built
    assert EnvironmentStore(store.root).ensure(toolchain, build=False) == built
    assert record.read_text() == written
    (stored,) = store.list()
    assert stored.size_bytes > 1_000_000

    shutil.rmtree(record.parent / "venv")
    assert isinstance(store.ensure(toolchain, build=False), Failed)
    assert store.ensure(toolchain) == built
    assert ask(built) == "1.16.0"

    assert store.remove(built.key)
    assert store.list() == ()
    assert isinstance(store.ensure(toolchain, build=False), Failed)


def test_two_builders_build_once(store, toolchain):
    builders = [start_builder(store, toolchain) for _ in range(2)]
    answers = [builder.communicate(timeout=1800)[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert answers[0] == answers[1]
    # The second would have removed the logs of the first and made new ones.
    (logs,) = (store.root / "logs").iterdir()
    record = store.root / "environments" / environment_key(toolchain) / "record.json"
    assert (logs / "create.log").stat().st_mtime < record.stat().st_mtime
    assert ask(Environment.model_validate_json(answers[0])) == "1.16.0"


@pytest.mark.parametrize("step", ["create", "install"])
def test_a_builder_killed_in_the_middle_leaves_no_process_and_the_next_repairs(store, toolchain, step):
    folder = store.root / "environments" / environment_key(toolchain)
    with start_builder(store, toolchain) as builder:
        # The log is there a moment before the process is.
        wait_until(lambda: list((store.root / "logs").glob(f"*/{step}.log")) and list_processes_with(str(folder)))
        os.kill(builder.pid, signal.SIGKILL)
    wait_until(lambda: not list_processes_with(str(folder)))
    assert folder.exists()
    assert store.list() == ()
    repaired = store.ensure(toolchain)
    assert isinstance(repaired, Environment), repaired
    assert ask(repaired) == "1.16.0"


def test_a_lock_that_cannot_be_installed_is_a_failure_with_its_reason(store, tmp_path):
    failed = store.ensure(make_toolchain(tmp_path / "tiny", lock="six==99.99.99\n"))
    assert isinstance(failed, Failed)
    assert failed.failure is FailureClass.INSTALL
    assert "No matching distribution found for six==99.99.99" in failed.reason
    assert "six==99.99.99" in Path(failed.log).read_text()
    assert list((store.root / "environments").iterdir()) == []


def test_a_lock_that_does_not_satisfy_the_ranges_is_a_failure(store, tmp_path):
    failed = store.ensure(make_toolchain(tmp_path / "tiny", lock="six==1.16.0\n", ranges="six>=99\n"))
    assert isinstance(failed, Failed)
    assert "does not satisfy requirements.in: six>=99 is needed, and 1.16.0 is installed" in failed.reason
    assert list((store.root / "environments").iterdir()) == []
