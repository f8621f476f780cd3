from __future__ import annotations

from pathlib import Path

import pytest

from hone_runtime.contract.toolchain import Toolchain
from kedro_hone.core.store.artifacts import Store
from kedro_hone.search.steps import records as module
from kedro_hone.search.steps.records import FOLDER, checkout_records

PLACE = ("environment", "machine")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def lend(store, tmp_path):
    def lend(name="run", *, place=PLACE, remembers=True):
        toolchain = Toolchain(name="tuner", folder=tmp_path, remembers=remembers)
        return checkout_records(store, toolchain, place, tmp_path / name)

    return lend


def read(store) -> list[str]:
    (kept,) = (store.notes / FOLDER).glob("*.jsonl")
    return kept.read_text().splitlines()


def test_a_toolchain_that_remembers_nothing_gets_no_file(lend, store):
    with lend(remembers=False) as path:
        assert path is None
    assert not (store.notes / FOLDER).exists()


def test_what_a_worker_adds_the_next_one_finds(lend):
    with lend() as path:
        assert path.read_text() == ""
        path.write_text("one\ntwo\n")
    with lend("next") as path:
        assert path.read_text() == "one\ntwo\n"


def test_runs_at_the_same_time_add_to_each_others(lend, store):
    with lend("a") as first, lend("b") as second:
        first.write_text("one\n")
        second.write_text("two\n")
    assert sorted(read(store)) == ["one", "two"]
    with lend("c") as path:
        path.write_text("two\nthree\n")  # it lost one: nobody else does
    assert sorted(read(store)) == ["one", "three", "two"]


def test_another_machine_or_version_has_others(lend):
    with lend() as path:
        path.write_text("one\n")
    for place in (("environment", "other"), ("other", "machine")):
        with lend(place=place) as path:
            assert path.read_text() == ""


def test_what_was_measured_before_a_failure_is_kept(lend, store):
    def fail():
        with lend() as path:
            path.write_text("one\n")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert read(store) == ["one"]


@pytest.mark.parametrize("leave", [Path.unlink, lambda path: (path.unlink(), path.mkdir())], ids=["nothing", "folder"])
def test_what_a_worker_leaves_in_its_place_harms_nothing(lend, store, leave):
    with lend() as path:
        path.write_text("one\n")
    with lend("next") as path:
        leave(path)
    assert read(store) == ["one"]


def test_a_link_is_not_followed(lend, store, tmp_path):
    (tmp_path / "secret").write_text("secret\n")
    with lend() as path:
        path.unlink()
        path.symlink_to(tmp_path / "secret")
    assert not list((store.notes / FOLDER).glob("*.jsonl"))


def test_the_newest_are_kept_where_there_are_too_many(lend, store, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 12)
    with lend() as path:
        path.write_text("one\ntwo\nsix\n")
    with lend("next") as path:
        path.write_text(path.read_text() + "ten\n")
    assert read(store) == ["two", "six", "ten"]
