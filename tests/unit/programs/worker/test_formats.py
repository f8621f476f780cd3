"""Files of text and nested lists: JSON lines and folders of datasets, damaged and hostile ones too."""

from __future__ import annotations

import builtins
import json

import numpy as np
import pyarrow as pa
import pytest


@pytest.fixture
def read(worker):
    def read(path):
        try:
            return worker.formats.read_arrays(path)
        except worker.formats.ReportedError as error:
            return f"{error.slug}: {error.what} {error}"

    return read


def write_dataset(folder, *tables, options=None, names=None):
    folder.mkdir(exist_ok=True)
    names = names or [f"data-{at:05d}-of-{len(tables):05d}.arrow" for at in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema, options=options) as out:
            out.write_table(table, max_chunksize=2)
    state = {"_data_files": [{"filename": name} for name in names], "_indices_data_files": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def test_a_folder_of_datasets_has_its_columns(read, tmp_path):
    table = pa.table(
        {
            "text": ["a", "b", None],
            "label": pa.array([1, 0, 1], pa.int64()),
            "score": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "tags": [[1, 2], [], [3]],
            "words": [["x", "y"], [], ["z"]],
            "answers": [{"text": ["q"]}, {"text": []}, {"text": ["r", "s"]}],
        }
    )
    found = read(write_dataset(tmp_path / "d", table, table.slice(0, 1)))
    assert found["text"].tolist() == ["a", "b", None, "a"]
    assert (found["label"].dtype, found["label"].tolist()) == (np.int64, [1, 0, 1, 1])
    assert found["score"].dtype == np.float32
    assert [list(row) for row in found["tags"]] == [[1, 2], [], [3], [1, 2]]
    assert found["words"].tolist() == [["x", "y"], [], ["z"], ["x", "y"]]
    assert found["answers"][2] == {"text": ["r", "s"]}


def test_json_lines_have_numbers_text_and_lists(read, tmp_path):
    rows = [{"a": 1, "b": "x", "c": [1, 2]}, {"a": 2, "b": "y", "c": []}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    found = read(tmp_path / "a.jsonl")
    assert (found["a"].tolist(), found["b"].tolist(), found["c"].tolist()) == ([1, 2], ["x", "y"], [[1, 2], []])
    assert found["a"].dtype == np.int64
    (tmp_path / "a.jsonl").write_text("\n")
    assert read(tmp_path / "a.jsonl") == "data-empty: a.jsonl has no rows. it contains no JSON object"
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"b": 2}\n')
    np.testing.assert_array_equal(read(tmp_path / "a.jsonl")["a"], [1, np.nan])


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1.5, None, 3], "f"), ([None, 2], "f"), ([None, None], "O"), ([True, None], "f"), ([2**60, None], "O")],
)
def test_a_missing_number_is_nan_as_in_a_csv_file(read, tmp_path, values, kind):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"a": value}) + "\n" for value in values))
    found = read(tmp_path / "a.jsonl")["a"]
    assert found.dtype.kind == kind
    if kind == "f":
        np.testing.assert_array_equal(found, np.array(values, dtype=float))


def test_a_folder_of_json_lines_is_one_split(read, tmp_path):
    (tmp_path / "f").mkdir()
    for name in "ab":
        (tmp_path / "f" / f"{name}.jsonl").write_text(json.dumps({"text": name}) + "\n")
    assert read(tmp_path / "f")["text"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 is not a JSON object"),
        ('{"a": ' + "[" * 100_000, "line 2 is not JSON|recursion"),
    ],
)
def test_lines_that_are_none_are_named(read, tmp_path, line, said):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n' + line + "\n")
    found = read(tmp_path / "a.jsonl")
    assert found.startswith("data-unreadable: a.jsonl")
    assert any(part in found for part in said.split("|"))


@pytest.mark.attack(
    what="a data set whose columns are far larger than its file",
    who="data",
    stopped_by="columns may be as large as the file",
)
def test_compressed_columns_are_refused(read, tmp_path):
    table = pa.table({"x": np.zeros(500_000)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    folder = tmp_path / "d"
    folder.mkdir()
    with (
        pa.OSFile(str(folder / "a.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, options=options) as out,
    ):
        out.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "a.arrow"}]}))
    assert (folder / "a.arrow").stat().st_size < 100_000
    assert "larger than the file" in read(folder)


@pytest.mark.attack(
    what="a data set that names a file outside its folder", who="data", stopped_by="only plain names of files are taken"
)
@pytest.mark.parametrize("name", ["../secret.arrow", "/etc/passwd", "sub/a.arrow", 3])
def test_files_outside_the_folder_are_refused(read, tmp_path, name):
    folder = write_dataset(tmp_path / "d", pa.table({"x": [1]}))
    write_dataset(tmp_path / "other", pa.table({"x": [1]}), names=["secret.arrow"])
    (tmp_path / "other" / "secret.arrow").rename(tmp_path / "secret.arrow")
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    assert "not in the folder" in read(folder)


def test_folders_that_are_no_split_are_explained(read, tmp_path):
    folder = write_dataset(tmp_path / "d", pa.table({"x": [1, 2]}))
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "_indices_data_files": [{"filename": "i.arrow"}]}))
    assert "flatten_indices" in read(folder)
    (folder / "state.json").write_text("[]")
    assert read(folder).startswith("data-unreadable")
    (folder / "state.json").unlink()
    (folder / "dataset_dict.json").write_text('{"splits": ["train"]}')
    assert "name the folder of one of them" in read(folder)


def test_damaged_streams_are_unreadable(read, tmp_path):
    folder = write_dataset(tmp_path / "d", pa.table({"x": [1, 2]}))
    (path,) = folder.glob("*.arrow")
    for content in (b"", b"no stream", path.read_bytes()[:120]):
        path.write_bytes(content)
        assert read(folder).startswith("data-unreadable: d")


def test_without_pyarrow_it_is_said_what_to_install(read, tmp_path, monkeypatch):
    folder = write_dataset(tmp_path / "d", pa.table({"x": [1, 2]}))
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name.startswith("pyarrow"):
            raise ImportError("No module named 'pyarrow'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert "pip install pyarrow" in read(folder)
