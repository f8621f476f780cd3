"""Tables: every format that the programs read, folders of them, and what cannot be read."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from hone_runtime.errors import HoneError
from kedro_hone.derivation.tables import read_table

RECORDS = [{"id": f"0{at}", "x": at / 3, "n": at if at % 2 else None, "ok": at > 1, "l": [at, at]} for at in range(6)]


def write_lines(path, records=RECORDS):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_dataset(folder, table, **state):
    folder.mkdir()
    with pa.OSFile(str(folder / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    files = {"_data_files": [{"filename": "data.arrow"}], "_indices_data_files": None}
    (folder / "state.json").write_text(json.dumps({**files, **state}))
    (folder / "dataset_info.json").write_text('{"description": "six"}')
    return folder


def refuse(path):
    with pytest.raises(HoneError) as caught:
        read_table(path)
    return caught.value


@pytest.fixture
def check_written(worker, tmp_path):
    """Check that the rows of two splits, as the programs read them, are those of the source."""

    def check(source, table):
        folder = tmp_path / "splits"
        folder.mkdir()
        wanted = worker.formats.read_arrays(source)
        made = table.content.write({"search": (0, 3), "gate": (1, 2, 5)}, folder)
        for split, rows in (("search", [0, 3]), ("gate", [1, 2, 5])):
            found = worker.formats.read_arrays(made[split])
            assert found.keys() == wanted.keys() == table.columns.keys()
            for name, array in wanted.items():
                one, other = found[name], array[rows]
                if other.dtype.kind == "O":
                    assert list(map(str, one)) == list(map(str, other))
                else:
                    np.testing.assert_array_equal(one, other)
        return made

    return check


def test_lines_of_json_are_written_as_they_are(tmp_path, check_written):
    path = write_lines(tmp_path / "a.ndjson")
    table = read_table(path)
    assert (table.rows, table.names) == (6, ("id", "x", "n", "ok", "l"))
    assert table.kinds == {"id": "text", "x": "number", "n": "number", "ok": "truth", "l": "other"}
    check_written(path, table)


def test_arrays_keep_their_names_types_and_values(tmp_path, check_written):
    arrays = {"file": np.arange(6, dtype="u1"), "x": np.float32(np.random.default_rng(0).normal(size=(6, 2, 3)))}
    arrays |= {"label": np.array(["a", "bb", "c", "a", "", "d"]), "half": np.float16([0.1, 2, 3, np.nan, -0.0, 5])}
    path = tmp_path / "a.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if name != "file"})
    table = read_table(path)
    made = check_written(path, table)
    with np.load(made["gate"]) as found:
        assert {name: found[name].dtype for name in found.files} == {
            name: array.dtype for name, array in arrays.items() if name != "file"
        }
    (tmp_path / "folder").mkdir()
    for name, array in arrays.items():
        np.save(tmp_path / "folder" / f"{name}.npy", array)
    table = read_table(tmp_path / "folder")
    assert set(table.names) == set(arrays)
    (tmp_path / "again").mkdir()
    with np.load(table.content.write({"gate": [1]}, tmp_path / "again")["gate"]) as found:
        assert found["file"].tolist() == [1]


def test_one_array_has_the_name_of_its_file(tmp_path, check_written):
    np.save(tmp_path / "pictures.npy", np.arange(12.0).reshape(6, 2))
    check_written(tmp_path / "pictures.npy", read_table(tmp_path / "pictures.npy"))


def test_parquet_keeps_its_types(tmp_path, check_written):
    table = pa.table(
        {
            **pa.Table.from_pylist(RECORDS).to_pydict(),
            "small": pa.array([1, 2, 3, 4, 5, 6], pa.int8()),
            "kind": pa.array(["a", "b", "a", "b", "a", "a"]).dictionary_encode(),
            "bytes": pa.array([b"a"] * 6),
            "day": pa.array(pd.date_range("2024-01-01", periods=6)),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    made = check_written(tmp_path / "a.parquet", read_table(tmp_path / "a.parquet"))
    assert parquet.read_schema(made["gate"]).equals(parquet.read_schema(tmp_path / "a.parquet"))


def test_the_index_of_pandas_is_no_column(tmp_path, check_written):
    frame = pd.DataFrame({"x": [1.5, 2, 3, 4, 5, 6]})
    frame.to_parquet(tmp_path / "a.parquet")
    check_written(tmp_path / "a.parquet", read_table(tmp_path / "a.parquet"))
    frame.set_index(pd.Index(list("abcdef"), name="id")).to_parquet(tmp_path / "b.parquet")
    table = read_table(tmp_path / "b.parquet")
    assert (table.names, table.notes) == (("x",), ("'id' is the index of a pandas table, and left out",))


def test_a_folder_of_datasets_becomes_such_folders(tmp_path, check_written):
    source = write_dataset(tmp_path / "train", pa.Table.from_pylist(RECORDS))
    made = check_written(source, read_table(source))
    assert json.loads((made["gate"] / "dataset_info.json").read_text()) == {"description": "six"}


def test_a_folder_of_parts_is_one_table(tmp_path, check_written):
    folder = tmp_path / "parts"
    folder.mkdir()
    write_lines(folder / "b.jsonl", RECORDS[3:])
    write_lines(folder / "a.jsonl", RECORDS[:3])
    check_written(folder, read_table(folder))
    for name in ("a", "b"):
        (tmp_path / "csv").mkdir(exist_ok=True)
        (tmp_path / "csv" / f"{name}.csv").write_text(f"x,y\n{name},1\n")
        (tmp_path / "npz").mkdir(exist_ok=True)
        np.savez(tmp_path / "npz" / f"{name}.npz", x=[name])
        (tmp_path / "parquet").mkdir(exist_ok=True)
        parquet.write_table(pa.table({"x": [name]}), tmp_path / "parquet" / f"{name}.parquet")
    for kind in ("csv", "npz", "parquet"):
        table = read_table(tmp_path / kind)
        assert (table.rows, list(table.columns["x"])) == (2, ["a", "b"])


def test_a_column_that_some_rows_lack_is_in_every_split(tmp_path):
    table = read_table(write_lines(tmp_path / "a.jsonl", [{"a": 1}, {}, {"b": "x", "a": 2}]))
    made = table.content.write({"gate": [0, 1], "search": [2]}, tmp_path)
    assert made["gate"].read_text() == '{"a": 1, "b": null}\n{"a": null, "b": null}\n'
    assert made["search"].read_text() == '{"b": "x", "a": 2}\n'


def test_one_list_of_json_is_a_table(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(RECORDS, indent=2))
    table = read_table(tmp_path / "a.json")
    made = table.content.write({"gate": [2, 4]}, tmp_path)
    assert [json.loads(line) for line in made["gate"].read_text().splitlines()] == [RECORDS[2], RECORDS[4]]


def test_a_file_that_is_not_there_is_refused_with_the_nearest_name(tmp_path):
    (tmp_path / "customers.csv").write_text("a\n1\n")
    error = refuse(tmp_path / "custmers.csv")
    assert (error.why, error.slug) == ("There is no such file.", "data-unreadable")
    assert error.hint.startswith("Did you mean 'customers.csv'? ")
    assert error.hint.endswith("--data FILE.")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xlsx", b"PK", "Its suffix '.xlsx' is none of"),
        ("a", b"x", "It has no suffix."),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "Line 2 is not JSON"),
        ("a.jsonl", b'{"a": 1}\n3\n', "Line 2 is not a JSON object."),
        ("a.json", b'[{"a": 1}, 2]', "Entry 1 of its list is no JSON object."),
        ("a.json", b'[{"a": 1},', "It is no JSON"),
        ("a.npz", b"nothing", "pickled"),
        ("a.parquet", b"nothing", "Parquet"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    error = refuse(tmp_path / name)
    assert error.slug == "data-unreadable"
    assert said in error.why


def test_arrays_without_a_row_for_each_row_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), y=np.ones(2))
    assert refuse(tmp_path / "a.npz").why == "Its arrays have different numbers of rows: 'x' has 3, 'y' has 2."
    np.savez(tmp_path / "a.npz", x=np.ones(3), y=np.float64(2))
    assert refuse(tmp_path / "a.npz").why == "'y' is one number, and not one for each row."


def test_pickles_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    assert "array.astype(str)" in refuse(tmp_path / "a.npz").hint


def test_data_without_rows_are_empty(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n")
    np.savez(tmp_path / "a.npz", x=np.ones((0, 2)))
    assert refuse(tmp_path / "a.jsonl").slug == refuse(tmp_path / "a.npz").slug == "data-empty"


def test_folders_that_are_no_table_are_refused(tmp_path):
    assert "none of" in refuse(tmp_path).why
    (tmp_path / "a.csv").write_text("a\n1\n")
    write_lines(tmp_path / "a.jsonl")
    assert "The folder has .csv and .jsonl of" in refuse(tmp_path).why
    for name, text in (("a.csv", "x\n1\n"), ("b.csv", "y\n1\n")):
        (tmp_path / "two").mkdir(exist_ok=True)
        (tmp_path / "two" / name).write_text(text)
    assert refuse(tmp_path / "two").why == "Only some files have 'x'."


def test_several_splits_of_datasets_are_refused_by_their_names(tmp_path):
    write_dataset(tmp_path / "test", pa.table({"x": [1]}))
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["test"]}')
    error = refuse(tmp_path)
    assert error.why == "It has several splits: test."
    assert f"--data gate={tmp_path.name}/test" in error.hint


def test_a_hostile_folder_of_datasets_is_refused(tmp_path):
    write_dataset(tmp_path / "a", pa.table({"x": [1]}), _data_files=[{"filename": "../b.arrow"}])
    assert "not in the folder" in refuse(tmp_path / "a").why
    write_dataset(tmp_path / "b", pa.table({"x": [1]}), _indices_data_files=[{}])
    assert "flatten_indices" in refuse(tmp_path / "b").why
