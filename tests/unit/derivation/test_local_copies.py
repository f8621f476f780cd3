"""Files that a proposal reads."""

from __future__ import annotations

from pathlib import Path

import fsspec

from kedro_hone.derivation.local_copies import fetch_data


def test_a_path_of_the_project_counts_from_it_and_another_is_absolute():
    assert fetch_data("data/splits/gate.csv", Path("/project")) == Path("/project/data/splits/gate.csv")
    assert fetch_data("/elsewhere/gate.csv", Path("/project")) == Path("/elsewhere/gate.csv")


def test_data_at_a_url_are_fetched_anew_each_time(tmp_path):
    files = fsspec.filesystem("memory")
    files.mkdirs("/rows", exist_ok=True)
    files.pipe_file("/rows/a.csv", b"x\n1\n")
    files.pipe_file("/rows/b.csv", b"x\n2\n")
    first = fetch_data("memory://rows", tmp_path)
    assert sorted(path.name for path in first.rglob("*.csv")) == ["a.csv", "b.csv"]
    files.rm("/rows/b.csv")
    files.pipe_file("/rows/a.csv", b"x\n3\n")
    again = fetch_data("memory://rows", tmp_path)
    assert [path.read_bytes() for path in again.rglob("*.csv")] == [b"x\n3\n"]
