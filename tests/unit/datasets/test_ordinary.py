"""Files of ordinary Kedro datasets as data."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import ClassVar

import fsspec
import pytest
from kedro.io import AbstractVersionedDataset, CachedDataset, DataCatalog, MemoryDataset, Version

from hone_runtime.values.digest import digest_file
from hone_runtime.values.samples import TrackedFile
from kedro_hone.datasets import FileDataset
from kedro_hone.datasets.errors import DataError
from kedro_hone.datasets.ordinary import check_unchanged, load_split, pin_entries


class TextDataset(AbstractVersionedDataset):
    """A dataset of one file, with the attributes that those of kedro-datasets have."""

    DEFAULT_LOAD_ARGS: ClassVar = {"mode": "r"}

    def __init__(self, filepath, protocol="file", load_args=None, version=None):
        self._protocol, self._fs = protocol, fsspec.filesystem(protocol)
        self._load_args = {**self.DEFAULT_LOAD_ARGS, **(load_args or {})}
        super().__init__(PurePosixPath(filepath), version, self._fs.exists, self._fs.glob)

    def load(self):
        return self._fs.cat(self._get_load_path())

    def save(self, data):
        with self._fs.open(str(self._get_save_path()), "w") as stream:
            stream.write(data)

    def _exists(self):
        return self._fs.exists(str(self._filepath))

    def _describe(self):
        return {"filepath": self._filepath}


@pytest.fixture(autouse=True)
def gate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data" / "gate.csv"
    path.parent.mkdir()
    path.write_text("x\n1\n")
    return path


def load(dataset, tmp_path):
    return load_split(DataCatalog({"gate": dataset}), "gate", project=tmp_path)


def test_its_file_is_read_as_it_is(gate, tmp_path):
    loaded = load(TextDataset(str(gate), load_args={"mode": "r"}), tmp_path)
    assert (loaded.source, loaded.sha256) == ("data/gate.csv", digest_file(gate))
    assert Path(loaded.path).read_bytes() == gate.read_bytes()
    assert load(CachedDataset(TextDataset(str(gate))), tmp_path) == loaded


def test_a_remote_file_is_read_by_the_datasets_own_file_system(tmp_path):
    files = fsspec.filesystem("memory")
    files.pipe("/bucket/gate.csv", b"x\n2\n")
    loaded = load(TextDataset("/bucket/gate.csv", protocol="memory"), tmp_path)
    assert loaded.source == "memory:///bucket/gate.csv"
    assert Path(loaded.path).read_bytes() == b"x\n2\n"


def test_of_a_versioned_one_the_version_that_it_loads(tmp_path):
    for version, text in (("2026-01-01", "old"), ("2026-02-01", "new")):
        place = tmp_path / "data" / "gate.jsonl" / version / "gate.jsonl"
        place.parent.mkdir(parents=True)
        place.write_text(text)
    found = {}
    for version in ("2026-01-01", None):
        dataset = TextDataset(str(tmp_path / "data/gate.jsonl"), version=Version(version, None))
        found[version] = Path(load(dataset, tmp_path).path).read_text()
    assert found == {"2026-01-01": "old", None: "new"}


@pytest.mark.parametrize(("name", "options"), [("gate.pkl", {}), ("gate", {}), ("gate.csv", {"sep": ";"})])
def test_what_no_program_reads_as_it_is_is_refused_before_it_is_loaded(gate, name, options):
    catalog = DataCatalog({"gate": TextDataset(str(gate.with_name(name)), load_args=options)})
    with pytest.raises(DataError) as caught:
        pin_entries(catalog, ["gate"], shared=(), project=gate.parents[1])
    assert caught.value.slug == "data-unreadable"
    assert "gate: {type: kedro_hone.datasets.FileDataset" in caught.value.hint


def test_an_object_without_a_file_is_refused(tmp_path):
    catalog = DataCatalog({"gate": MemoryDataset("rows")})
    pin_entries(catalog, ["gate", "absent"], shared=(), project=tmp_path)  # it may yet be pinned data
    with pytest.raises(DataError, match="no data that kedro-hone reads") as caught:
        load_split(catalog, "gate", project=tmp_path)
    assert "A MemoryDataset has no file" in caught.value.why


def test_what_loads_as_pinned_data_stays_as_it_is(gate, tmp_path):
    dataset = FileDataset(path=str(gate))
    assert load(MemoryDataset(dataset.load()), tmp_path) == load(dataset, tmp_path) == dataset.load()


def test_data_that_changed_since_the_run_began_are_refused():
    first, now = (TrackedFile(path="/c", source="gate.csv", sha256=f"sha256:{n}") for n in (1, 2))
    check_unchanged(first, first)
    with pytest.raises(DataError, match="first read sha256:1") as caught:
        check_unchanged(first, now)
    assert caught.value.slug == "data-modified"


def test_kedro_loads_no_object_from_what_only_kedro_hone_reads(gate, tmp_path, caplog):
    gate.with_name("broken.csv").write_bytes(b"\xff")
    entries = {"gate": TextDataset(str(gate)), "search": TextDataset(str(gate.with_name("broken.csv")))}
    catalog = DataCatalog(dict(entries))
    pin_entries(catalog, ["gate", "search"], shared={"gate"}, project=tmp_path)
    assert catalog["gate"] is entries["gate"]
    assert catalog.load("search").source == "data/broken.csv"
    assert catalog.exists("search")
    catalog.save("search", "x")
    assert gate.with_name("broken.csv").read_text() == "x"
    assert "Replacing" not in caplog.text


@pytest.mark.parametrize("entry", [{"type": "pandas.NoDataset"}, {"type": "MemoryDataset", "nonsense": 1}])
def test_an_entry_that_cannot_be_made_is_explained(tmp_path, entry):
    catalog = DataCatalog.from_config({"gate": entry})
    with pytest.raises(DataError, match="cannot be used") as caught:
        pin_entries(catalog, ["gate"], shared=(), project=tmp_path)
    assert caught.value.slug == "data-unreadable"


def test_a_versioned_one_without_a_version_is_missing(tmp_path):
    dataset = TextDataset(str(tmp_path / "data/gate.jsonl"), version=Version(None, None))
    with pytest.raises(DataError) as caught:
        load(dataset, tmp_path)
    assert caught.value.slug == "data-missing"
