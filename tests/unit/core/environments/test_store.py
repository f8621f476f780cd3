from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore, _environment_key, find_home

DAY = 24 * 3600


@pytest.fixture
def store(tmp_path) -> EnvironmentStore:
    return EnvironmentStore(tmp_path / "home")


def make_toolchain(folder: Path, *, ranges: str = "pytest", lock: str | None = "pytest==1.0\n") -> Toolchain:
    folder.mkdir(exist_ok=True)
    (folder / "requirements.in").write_text(ranges)
    if lock is not None:
        (folder / "requirements.lock").write_text(lock)
    return Toolchain(name="tool", folder=folder)


def put_environment(store: EnvironmentStore, key: str, *, days: float = 0.0) -> Path:
    """Lay down what a finished build leaves, without any package."""
    folder = store.root / "environments" / key
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    environment = Environment(
        toolchain="tool",
        key=key,
        python=str(folder / "venv" / "bin" / "python"),
        own=True,
        lock_digest="sha256:0",
        versions={},
    )
    record = folder / "record.json"
    record.write_text(environment.model_dump_json())
    os.utime(record, (time.time() - days * DAY,) * 2)
    return folder


def test_the_root_is_chosen_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    assert find_home() == tmp_path
    assert EnvironmentStore().root == tmp_path
    monkeypatch.delenv("HONE_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert find_home() == tmp_path / "cache" / "kedro-hone"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert find_home() == Path.home() / ".cache" / "kedro-hone"


def test_the_key_follows_what_is_locked_and_not_how_it_is_written(tmp_path):
    key = _environment_key(make_toolchain(tmp_path / "a", lock="six==1.16.0\n"))
    assert len(key) == 64
    assert _environment_key(make_toolchain(tmp_path / "b", lock="# by hand\n\nsix==1.16.0  # pinned\n")) == key
    assert _environment_key(make_toolchain(tmp_path / "c", lock="six==1.17.0\n")) != key
    assert _environment_key(make_toolchain(tmp_path / "d", lock="six==1.16.0 --hash=sha256:ab\n")) != key


def test_this_interpreter_is_used_when_it_satisfies_the_ranges(store, tmp_path):
    environment = store.ensure(make_toolchain(tmp_path / "tool", ranges="pytest>=8\nabsent; python_version < '3'\n"))
    assert isinstance(environment, Environment)
    assert environment.python == sys.executable
    assert not environment.own
    assert environment.versions["pytest"] == pytest.__version__
    assert "pluggy" in environment.versions
    assert not store.root.exists()


def test_the_key_of_this_interpreter_follows_what_is_installed(store, tmp_path):
    first = store.ensure(make_toolchain(tmp_path / "tool"))
    again = store.ensure(make_toolchain(tmp_path / "tool"))
    other = store.ensure(make_toolchain(tmp_path / "tool", ranges="packaging"))
    assert first == again
    assert first.key != other.key


def test_nothing_is_built_unless_it_may_be(store, tmp_path):
    failed = store.ensure(make_toolchain(tmp_path / "tool", ranges="pytest<1"), build=False)
    assert isinstance(failed, Failed)
    assert failed.failure is FailureClass.INSTALL
    assert "pytest<1 is needed" in failed.reason
    assert "kedro-hone toolchains build tool" in failed.reason
    assert not store.root.exists()


@pytest.mark.parametrize("missing", ["requirements.in", "requirements.lock"])
def test_a_toolchain_without_its_files_fails(store, tmp_path, missing):
    toolchain = make_toolchain(tmp_path / "tool", ranges="pytest<1")
    (toolchain.folder / missing).unlink()
    failed = store.ensure(toolchain)
    assert isinstance(failed, Failed)
    assert f"{missing} does not exist" in failed.reason


def test_what_is_built_is_found_and_its_use_noted(store, tmp_path):
    toolchain = make_toolchain(tmp_path / "tool", ranges="pytest<1")
    folder = put_environment(store, _environment_key(toolchain), days=9)
    environment = store.ensure(toolchain, build=False)
    assert isinstance(environment, Environment)
    assert environment.own
    assert time.time() - (folder / "record.json").stat().st_mtime < DAY


@pytest.mark.parametrize("damage", ["record", "python", "package"])
def test_what_is_damaged_is_not_found(store, tmp_path, damage):
    toolchain = make_toolchain(tmp_path / "tool", ranges="pytest<1")
    folder = put_environment(store, _environment_key(toolchain))
    record = folder / "record.json"
    if damage == "record":
        record.write_text(record.read_text()[:20])
    elif damage == "python":
        python = folder / "venv" / "bin" / "python"
        python.unlink()
        python.symlink_to("/nowhere/python")
    else:
        record.write_text(record.read_text().replace('"versions":{}', '"versions":{"six":"1.16.0"}'))
    assert isinstance(store.ensure(toolchain, build=False), Failed)
    os.utime(record, (0, 0))
    assert len(store.collect([])) == (damage != "record"), "without a record it does not exist"


def test_collect_tells_sizes_and_leaves_what_is_half_built(store):
    assert store.collect([]) == []
    put_environment(store, "small", days=5)
    folder = put_environment(store, "large", days=5)
    (folder / "venv" / "weights").write_bytes(b"x" * 5000)
    half = store.root / "environments" / "half-built"
    half.mkdir()
    (large, most), (small, least) = store.collect([])
    assert (large.key, small.key) == ("large", "small")
    assert most > least + 4900
    assert list(half.parent.iterdir()) == [half]


def test_collect_takes_the_unknown_and_the_unused(store, tmp_path):
    toolchain = make_toolchain(tmp_path / "tool")
    other = make_toolchain(tmp_path / "other", lock="pytest==2.0\n")
    put_environment(store, _environment_key(toolchain), days=2)
    put_environment(store, _environment_key(other), days=40)
    put_environment(store, "unknown", days=2)
    put_environment(store, "unknown-in-use", days=0.5)
    removed = {environment.key for environment, _ in store.collect([toolchain, other], days=30)}
    assert removed == {_environment_key(other), "unknown"}
    left = {folder.name for folder in (store.root / "environments").iterdir()}
    assert left == {_environment_key(toolchain), "unknown-in-use"}
