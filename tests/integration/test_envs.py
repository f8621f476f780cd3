"""Environments that are really built, from the package index."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from empty_wheel import make_wheel

from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore, _environment_key

SIX = "8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254"  # six-1.16.0-py2.py3-none-any.whl
SOURCE = Path(__file__).parents[2] / "src"
BUILDER = """
import sys
from pathlib import Path
from hone_runtime.contract.toolchain import Toolchain
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
    assert built.key == _environment_key(toolchain)
    record = store.root / "environments" / built.key / "record.json"
    written = record.read_text()

    (store.root / "environments" / built.key / "venv" / "mark").write_text("not built again")
    assert store.ensure(toolchain) == built
    assert EnvironmentStore(store.root).ensure(toolchain, build=False) == built
    assert record.read_text() == written

    shutil.rmtree(record.parent / "venv")
    assert isinstance(store.ensure(toolchain, build=False), Failed)
    assert store.ensure(toolchain) == built
    assert ask(built) == "1.16.0"

    os.utime(record, (0, 0))
    ((removed, size),) = store.collect([])
    assert (removed, size > 10_000) == (built, True)
    assert isinstance(store.ensure(toolchain, build=False), Failed)


def test_two_builders_build_once(store, toolchain):
    builders = [start_builder(store, toolchain) for _ in range(2)]
    printed = [builder.communicate(timeout=1800)[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert printed[0] == printed[1]
    # The second would have removed the logs of the first and made new ones.
    (logs,) = (store.root / "logs").iterdir()
    record = store.root / "environments" / _environment_key(toolchain) / "record.json"
    assert (logs / "create.log").stat().st_mtime < record.stat().st_mtime
    assert ask(Environment.model_validate_json(printed[0])) == "1.16.0"


@pytest.mark.parametrize("step", ["create", "install"])
def test_a_builder_killed_in_the_middle_leaves_no_process_and_the_next_repairs(store, toolchain, step):
    folder = store.root / "environments" / _environment_key(toolchain)
    with start_builder(store, toolchain) as builder:
        # The log is there a moment before the process is.
        wait_until(lambda: list((store.root / "logs").glob(f"*/{step}.log")) and list_processes_with(str(folder)))
        os.kill(builder.pid, signal.SIGKILL)
    wait_until(lambda: not list_processes_with(str(folder)))
    assert folder.exists()
    assert isinstance(store.ensure(toolchain, build=False), Failed)
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


def test_a_lock_with_digests_is_checked_and_one_with_a_wrong_digest_is_a_failure(store, tmp_path):
    assert isinstance(
        store.ensure(make_toolchain(tmp_path / "tiny", lock=f"six==1.16.0 --hash=sha256:{SIX}\n")), Environment
    )
    failed = store.ensure(make_toolchain(tmp_path / "bad", lock=f"six==1.16.0 --hash=sha256:{'0' * 64}\n"))
    assert isinstance(failed, Failed)
    assert failed.failure is FailureClass.INSTALL
    assert failed.reason == f"six==1.16.0: the digest of the downloaded file, {SIX}, is not in the lock"
    assert len(list((store.root / "environments").iterdir())) == 1


def test_a_lock_with_digests_installs_nothing_that_it_does_not_name(store, tmp_path):
    failed = store.ensure(make_toolchain(tmp_path / "tiny", lock=f"six==1.16.0 --hash=sha256:{SIX}\nidna==3.10\n"))
    assert isinstance(failed, Failed)
    assert "Hashes are required" in failed.reason


@pytest.fixture
def links(tmp_path, monkeypatch) -> Path:
    """A folder in which installers find packages."""
    folder = tmp_path / "links"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def two_builds(links, tmp_path) -> Toolchain:
    """A toolchain with two builds of one package, both of which can be found."""
    index = make_wheel(links, "honetoy", "1.0", needs="honetoy-cuda==2.0")
    cpu = make_wheel(links, "honetoy", "1.0+cpu")
    cuda = make_wheel(links, "honetoy-cuda", "2.0")
    toolchain = make_toolchain(tmp_path / "tiny", lock=f"six==1.16.0 --hash=sha256:{SIX}\n", ranges="honetoy\n")
    (toolchain.folder / "requirements-cpu.lock").write_text(f"honetoy==1.0+cpu --hash=sha256:{cpu}\n")
    (toolchain.folder / "requirements-cuda.lock").write_text(
        f"honetoy==1.0 --hash=sha256:{index}\nhonetoy-cuda==2.0 --hash=sha256:{cuda}\n"
    )
    return toolchain


@pytest.fixture(params=["pip", pytest.param("uv", marks=pytest.mark.skipif(not shutil.which("uv"), reason="no uv"))])
def installer(request, monkeypatch) -> None:
    monkeypatch.setenv("HONE_INSTALLER", request.param)


@pytest.mark.usefixtures("installer")
def test_the_first_of_two_builds_that_is_found_is_installed(store, two_builds, links):
    built = store.ensure(two_builds)
    assert isinstance(built, Environment), built
    assert (built.versions["honetoy"], built.versions.get("honetoy-cuda")) == ("1.0+cpu", None)
    assert built.build == "cpu"

    shutil.rmtree(Path(built.python).parents[2])
    next(links.glob("*+cpu*")).unlink()
    built = store.ensure(two_builds)
    assert isinstance(built, Environment), built
    assert (built.versions["honetoy"], built.versions["honetoy-cuda"]) == ("1.0", "2.0")
    assert built.build == "cuda"


@pytest.mark.usefixtures("installer")
def test_a_first_build_with_a_wrong_digest_is_a_failure_and_the_second_is_not_tried(store, two_builds):
    (two_builds.folder / "requirements-cpu.lock").write_text(f"honetoy==1.0+cpu --hash=sha256:{'0' * 64}\n")

    failed = store.ensure(two_builds)

    assert isinstance(failed, Failed), failed
    assert failed.reason.startswith("honetoy==1.0+cpu: the digest of the downloaded file, ")
    assert Path(failed.log).name == "install-cpu.log"
    assert not Path(failed.log).with_name("install-cuda.log").exists()


@pytest.mark.usefixtures("installer")
def test_a_first_build_that_is_found_and_broken_is_a_failure_and_the_second_is_not_tried(store, two_builds, links):
    wheel = next(links.glob("*+cpu*"))
    wheel.write_bytes(b"no wheel")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (two_builds.folder / "requirements-cpu.lock").write_text(f"honetoy==1.0+cpu --hash=sha256:{digest}\n")

    failed = store.ensure(two_builds)

    assert isinstance(failed, Failed), failed
    assert Path(failed.log).name == "install-cpu.log"


@pytest.mark.attack(
    what="a source archive whose setup.py runs code",
    who="package index",
    stopped_by="a lock with digests installs wheels only",
)
@pytest.mark.usefixtures("installer")
def test_a_lock_with_digests_runs_no_code_of_a_source_archive(store, tmp_path, links):
    archive, mark = links / "honetoy-1.0.tar.gz", tmp_path / "mark"
    setup = f"open({str(mark)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='honetoy', version='1.0')\n"
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in (("setup.py", setup), ("PKG-INFO", "Metadata-Version: 2.1\nName: honetoy\nVersion: 1.0\n")):
            member = tarfile.TarInfo(f"honetoy-1.0/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    lock = f"honetoy==1.0 --hash=sha256:{digest}\n"

    failed = store.ensure(make_toolchain(tmp_path / "tiny", lock=lock, ranges="honetoy\n"))

    assert isinstance(failed, Failed), failed
    assert "honetoy==1.0" in Path(failed.log).read_text()
    assert not mark.exists()


def test_a_lock_that_does_not_satisfy_the_ranges_is_a_failure(store, tmp_path):
    failed = store.ensure(make_toolchain(tmp_path / "tiny", lock="six==1.16.0\n", ranges="six>=99\n"))
    assert isinstance(failed, Failed)
    assert "does not satisfy requirements.in: six>=99 is needed, and 1.16.0 is installed" in failed.reason
    assert list((store.root / "environments").iterdir()) == []


OFFLINE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
    "PIP_RETRIES": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_CONFIG_FILE": os.devnull,
}


@pytest.fixture
def offline(monkeypatch) -> None:
    """A machine whose index does not answer."""
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("offline")
def test_without_a_network_a_folder_of_wheels_is_installed_with_the_digests_of_the_lock(tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    digest = make_wheel(wheels, "honetoy", "1.0")
    toolchain = make_toolchain(tmp_path / "tiny", lock=f"honetoy==1.0 --hash=sha256:{digest}\n", ranges="honetoy\n")
    store = EnvironmentStore(tmp_path / "home", wheels=wheels)

    built = store.ensure(toolchain)

    assert isinstance(built, Environment), built
    assert built.versions["honetoy"] == "1.0"
    (toolchain.folder / "requirements.lock").write_text(f"honetoy==1.0 --hash=sha256:{'0' * 64}\n")
    failed = store.ensure(toolchain)
    assert isinstance(failed, Failed)
    assert failed.reason == f"honetoy==1.0: the digest of the downloaded file, {digest}, is not in the lock"


@pytest.mark.usefixtures("offline")
def test_an_index_that_does_not_answer_is_the_reason_and_no_other_build_is_tried(store, two_builds, links, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    (two_builds.folder / "requirements.lock").write_text("")  # six is on the index
    next(links.glob("*+cpu*")).unlink()

    failed = store.ensure(two_builds)

    assert isinstance(failed, Failed)
    assert failed.failure is FailureClass.INSTALL
    assert failed.reason.startswith("the package index cannot be reached: ")
    assert "Connection refused" in failed.reason
    assert Path(failed.log).name == "install-cpu.log"
    assert list((store.root / "environments").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_disk_that_fills_in_the_middle_of_an_installation_leaves_nothing_and_is_named(store, tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    digest = make_wheel(wheels, "honetoy", "1.0", holds=8 << 20)
    toolchain = make_toolchain(tmp_path / "tiny", lock=f"honetoy==1.0 --hash=sha256:{digest}\n", ranges="honetoy\n")
    store.root.mkdir()
    script = f"mount -t tmpfs -o size=6m tmpfs '{store.root}' && \"$@\"; ls '{store.root}/environments'"
    command = [sys.executable, "-c", BUILDER, str(store.root), str(toolchain.folder)]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "HONE_WHEELS": str(wheels)},
        capture_output=True,
        text=True,
        check=True,
    )
    failed = Failed.model_validate_json(done.stdout)  # and no environment is listed after it
    assert failed.failure is FailureClass.DISK_FULL, failed
    assert "No space left on device" in failed.reason
