"""What is missing in a table, and the types of pandas that a column may have."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.interfaces.texts import MISSING

pd = pytest.importorskip("pandas")
AGE = {"name": "age", "dtype": "float64", "shape": ["batch", 1]}
DECK = {"name": "deck", "dtype": "str", "shape": ["batch", 1]}
COUNT = {"name": "count", "dtype": "int64", "shape": ["batch", 1]}
PROBABILITIES = {"name": "probabilities", "dtype": "float32", "shape": ["batch", 2]}


@pytest.fixture
def read(worker, make_job):
    def read(path, *inputs, missing=("deck",)):
        job = make_job(
            "tabular-classification",
            inputs=inputs or (AGE, DECK),
            outputs=[PROBABILITIES],
            splits={"gate": {"path": str(path)}},
        )
        job["input"]["metadata"] = {"sklearn": {"missing": list(missing)}}
        notes = worker.read(job)
        if "error" in notes:
            return notes["error"]
        with np.load(Path(job["output"], "gate", "feeds.npz")) as feeds:
            return {name: array.ravel().tolist() for name, array in feeds.items()}

    return read


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_words_for_nothing_are_missing_numbers_and_legal_texts(read, tmp_path):
    rows = "age,deck,target\n1.5,NA,0\nNA,B,1\n,None,0\n3,,1\n"
    found = read(write(tmp_path / "a.csv", rows))
    assert found["deck"] == ["NA", "B", "None", MISSING]
    np.testing.assert_array_equal(found["age"], [1.5, np.nan, np.nan, 3])


def test_a_missing_text_that_the_model_does_not_take_is_refused_with_its_line_and_what_to_do(read, tmp_path):
    error = read(write(tmp_path / "a.csv", "age,deck,target\n1,A,0\n2,,1\n3,,1\n"), missing=())
    assert error["why"] == (
        "input 'deck': row 1 (line 3 of a .csv file) has no value, and the model takes text there; so have 1 more rows"
    )
    assert error["hint"].startswith("Fill the cell")
    assert "arrays" not in error["hint"]


def test_a_missing_whole_number_is_refused_as_such(read, tmp_path):
    error = read(write(tmp_path / "a.csv", "count,target\n1,0\n,1\n"), COUNT)
    assert "row 1 (line 3 of a .csv file) has no value, and the model takes whole numbers there" in error["why"]


def test_nulls_in_json_lines_are_missing_values(read, tmp_path):
    rows = [{"age": 1, "deck": "A", "target": 0}, {"age": None, "deck": None, "target": 1}]
    found = read(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    np.testing.assert_array_equal(found["age"], [1, np.nan])
    assert found["deck"] == ["A", MISSING]


@pytest.mark.parametrize(
    ("column", "due"),
    [
        (lambda: pd.array([1, None, 3], "Int64"), [1, np.nan, 3]),
        (lambda: pd.array([True, None, False], "boolean"), [1, np.nan, 0]),
        (lambda: pd.array([1, 2, 3], "Int32"), [1, 2, 3]),
        (lambda: pd.array([0.5, None, 1.5], "Float64"), [0.5, np.nan, 1.5]),
        (lambda: pd.Categorical([3, None, 1]), [3, np.nan, 1]),
        (lambda: np.array([True, None, False], object), [1, np.nan, 0]),
    ],
)
def test_nullable_types_of_pandas_are_numbers(read, tmp_path, column, due):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"age": column(), "deck": ["a", None, "c"], "target": 0}).to_parquet(tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet")
    np.testing.assert_array_equal(found["age"], due)
    assert found["deck"] == ["a", MISSING, "c"]


@pytest.mark.parametrize("inputs", [(AGE,), (DECK,)], ids=["numbers", "text"])
@pytest.mark.parametrize("kind", ["datetime64[ns]", object])
def test_dates_are_refused_by_the_name_of_the_column(read, tmp_path, inputs, kind):
    pytest.importorskip("pyarrow")
    days = [dt.date(2026, 1, day) for day in (1, 2, 3)]
    name = inputs[0]["name"]
    pd.DataFrame({name: pd.Series(days, dtype=kind), "target": 0}).to_parquet(tmp_path / "a.parquet")
    error = read(tmp_path / "a.parquet", *inputs)
    assert f"input {name!r}" in error["why"]
    assert "date" in error["why"]


def test_a_column_of_text_without_any_value_is_missing_in_all_rows(read, tmp_path):
    found = read(write(tmp_path / "a.csv", "age,deck,target\n1,,0\n2,,1\n"))
    assert found["deck"] == [MISSING, MISSING]
