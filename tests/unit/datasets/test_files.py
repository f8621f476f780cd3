"""Data that nothing versions, pinned by the digest of their content."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import fsspec
import pytest
from kedro.io import DataCatalog

from hone_runtime.errors import HoneError
from hone_runtime.values.digest import digest_file, digest_tree
from kedro_hone.datasets import FileDataset, copies
from kedro_hone.datasets.errors import DataError


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def gate(project):
    path = project / "data" / "gate.csv"
    path.write_text("x,target\n1,0\n")
    return path


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def test_a_file_is_a_read_only_copy_with_the_digest_of_its_content(gate):
    loaded = FileDataset(path="data/gate.csv").load()
    digest = digest_file(gate)
    assert loaded.model_dump() == {
        "path": str(Path.cwd() / "data/hone/files" / digest.removeprefix("sha256:") / "gate.csv"),
        "source": "data/gate.csv",
        "repo": "", "rev": "", "resolved_rev": "", "md5": "",
        "sha256": digest, "drawn": False,
    }  # fmt: skip
    assert loaded.content == digest
    assert Path(loaded.path).read_bytes() == gate.read_bytes()
    assert not Path(loaded.path).stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)


def test_a_folder_is_pinned_by_names_and_bytes(gate, project):
    (project / "data" / "parts" / "deep").mkdir(parents=True)
    for name in ("a.csv", "deep/b.csv"):
        (project / "data" / "parts" / name).write_text(name)
    (project / "data" / "parts" / "out.csv").symlink_to("/etc/hostname")
    loaded = FileDataset(path="data/parts").load()
    assert loaded.sha256 == digest_tree(project / "data" / "parts")
    assert sorted(path.name for path in Path(loaded.path).rglob("*.csv")) == ["a.csv", "b.csv"]
    (project / "data" / "parts" / "a.csv").rename(project / "data" / "parts" / "c.csv")
    assert FileDataset(path="data/parts").load().sha256 != loaded.sha256


@pytest.mark.parametrize("place", ["memory://bucket/gate.csv", "memory://bucket/parts"])
def test_a_url_is_copied_from_its_file_system(memory, place):
    for name in ("gate.csv", "parts/a.csv", "parts/deep/b.csv"):
        memory.pipe(f"/bucket/{name}", name.encode())
    loaded = FileDataset(path=place).load()
    assert loaded.source == place
    copied = {
        path.name: path.read_text() for path in [Path(loaded.path), *Path(loaded.path).rglob("*")] if path.is_file()
    }
    assert copied in ({"gate.csv": "gate.csv"}, {"a.csv": "parts/a.csv", "b.csv": "parts/deep/b.csv"})


def test_a_damaged_copy_is_made_again(gate):
    dataset = FileDataset(path="data/gate.csv")
    copy = Path(dataset.load().path)
    copy.chmod(0o644)
    copy.write_text("x,target\n1,1\n")
    assert Path(dataset.load().path).read_bytes() == gate.read_bytes()


def test_a_file_that_changes_between_two_loads_of_a_run_is_refused(gate):
    dataset = FileDataset(path="data/gate.csv")
    dataset.load()
    shipped = pickle.loads(pickle.dumps(dataset))  # noqa: S301
    gate.write_text("x,target\n1,1\n")
    for one in (dataset, shipped):
        with pytest.raises(DataError, match="was changed") as caught:
            one.load()
        assert caught.value.slug == "data-modified"
    assert FileDataset(path="data/gate.csv").load().sha256 == digest_file(gate)


def test_a_url_that_changes_between_two_loads_is_refused(memory):
    memory.pipe("/bucket/gate.csv", b"1")
    dataset = FileDataset(path="memory://bucket/gate.csv")
    dataset.load()
    memory.pipe("/bucket/gate.csv", b"2")
    with pytest.raises(DataError, match="was changed"):
        dataset.load()


def test_a_file_that_is_being_written_is_refused(gate, monkeypatch):
    def write_meanwhile(source, target):
        Path(target).write_bytes(Path(source).read_bytes())
        state = Path(source).stat()
        gate.write_text("x,target\n1,1\n")  # as long as before
        os.utime(gate, ns=(state.st_atime_ns, state.st_mtime_ns))  # and with the same time

    monkeypatch.setattr(copies.shutil, "copyfile", write_meanwhile)
    with pytest.raises(DataError, match="changed while it was read"):
        FileDataset(path="data/gate.csv").load()


def test_a_remote_file_that_is_being_written_is_refused(memory, monkeypatch):
    memory.pipe("/bucket/gate.csv", b"1")
    get = type(memory).get_file

    def write_meanwhile(self, path, target, **options):
        get(self, path, target, **options)
        self.pipe_file(path, b"2")

    monkeypatch.setattr(type(memory), "get_file", write_meanwhile)
    with pytest.raises(DataError, match="changed while it was read"):
        FileDataset(path="memory://bucket/gate.csv").load()


def test_a_digest_in_the_catalog_is_demanded(gate):
    digest = digest_file(gate)
    for asked in (digest, digest.removeprefix("sha256:")):
        assert FileDataset(path="data/gate.csv", sha256=asked).load().sha256 == digest
    with pytest.raises(DataError, match="The catalog pins sha256:00"):
        FileDataset(path="data/gate.csv", sha256="0" * 64).load()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("data/none.csv", "count from the project's root"),
        ("data/empty", "count from the project's root"),
        ("memory://bucket/none.csv", "`credentials` and `fs_args`"),
        ("nowhere://bucket/none.csv", "Check the address"),
        ("adl://bucket/none.csv", "Install the package"),
    ],
)
def test_what_cannot_be_read_is_explained(project, path, said):
    (project / "data" / "empty").mkdir()
    with pytest.raises(DataError) as caught:
        FileDataset(path=path).load()
    assert caught.value.slug == "data-missing"
    assert said in caught.value.hint
    assert not FileDataset(path="data/none.csv").exists()


def test_a_secret_in_a_url_is_not_in_the_lineage_or_an_error():
    dataset = FileDataset(path="https://user:hunter2@127.0.0.1:9/gate.csv")
    assert "hunter2" not in dataset.source + str(dataset)
    with pytest.raises(DataError) as caught:
        dataset.load()
    assert "hunter2" not in str(caught.value)


def test_through_a_catalog_it_is_an_error_for_people(gate):
    catalog = DataCatalog.from_config({"gate": {"type": "kedro_hone.datasets.FileDataset", "path": str(gate)}})
    assert catalog.exists("gate")
    assert catalog.load("gate").source == "data/gate.csv"
    gate.unlink()
    with pytest.raises(Exception, match="cannot be read") as caught:
        catalog.load("gate")
    assert HoneError.find(caught.value).slug == "data-missing"


def test_no_node_saves_to_it(gate):
    with pytest.raises(DataError, match="only reads"):
        FileDataset(path="data/gate.csv").save("x")
