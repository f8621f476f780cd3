"""Columns of a table are found by the names that the model was fitted on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
X = {"name": "X", "dtype": "float64", "shape": ["batch", 3]}
PROBABILITIES = {"name": "probabilities", "dtype": "float32", "shape": ["batch", 2]}
NAMES = ["width", "height", "1st size (€)"]
FRAME = pd.DataFrame({"width": [1.0, 2.0], "height": [10, 20], "1st size (€)": [0.1, 0.2], "target": [0, 1]})
BACKWARDS = FRAME[FRAME.columns[::-1]]
WITH_ID = FRAME.assign(id=["a", "b"], more=[5, 6])


def write(path: Path, frame) -> Path:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        rows = frame.to_dict("records")
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture
def read(worker, make_job, tmp_path):
    def read(frame, *, suffix="csv", about=None, inputs=(X,), **options):
        job = make_job(
            "tabular-classification",
            inputs=inputs,
            outputs=[PROBABILITIES],
            program_options=options,
            splits={"gate": {"path": str(write(tmp_path / f"rows.{suffix}", frame))}},
        )
        job["input"]["metadata"] = {"sklearn": {"feature_names_in": NAMES} if about is None else about}
        notes = worker.read(job)
        if "error" in notes:
            return notes["error"], None
        with np.load(Path(job["output"], "gate", "feeds.npz")) as feeds:
            return notes["warnings"], dict(feeds)

    return read


DUE = [[1, 10, 0.1], [2, 20, 0.2]]


@pytest.mark.parametrize("about", [None, {"columns": NAMES}], ids=["the estimator", "the signature"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_order_in_the_file_does_not_matter(read, suffix, about):
    said, feeds = read(BACKWARDS, suffix=suffix, about=about)
    np.testing.assert_array_equal(feeds["X"], DUE)
    assert said == []


def test_columns_that_are_none_of_the_models_are_told_and_left_out(read):
    said, feeds = read(WITH_ID)
    np.testing.assert_array_equal(feeds["X"], DUE)
    assert said == ["gate (rows.csv): the columns 'id', 'more' are none of the model's, and left out"]


def test_a_missing_column_is_named(read):
    error, _ = read(FRAME.drop(columns="height"))
    assert error["slug"] == "data-unreadable"
    assert error["why"].startswith("the column 'height' is missing; the model takes 'width', 'height'")
    assert "program.options.features" in error["why"]


def test_the_option_wins(read):
    said, feeds = read(WITH_ID, features=["more", "width", "height"])
    np.testing.assert_array_equal(feeds["X"], [[5, 1, 10], [6, 2, 20]])
    assert said == []


def test_names_in_which_a_library_replaced_spaces_are_found(read):
    kept = {"feature_names_in": [name.replace(" ", "_") for name in NAMES]}
    np.testing.assert_array_equal(read(BACKWARDS, about=kept)[1]["X"], DUE)


@pytest.mark.parametrize("names", [["Column_0", "Column_1", "Column_2"], ["0", "1", "2"], []])
def test_a_model_without_names_takes_the_columns_as_they_stand(read, names):
    np.testing.assert_array_equal(read(FRAME, about={"feature_names_in": names})[1]["X"], DUE)
    error, _ = read(FRAME.assign(more=[5, 6]), about={"feature_names_in": names})
    why = "there are 4 columns ('width', 'height', '1st size (€)', 'more'), and the model takes 3"
    assert error["why"].startswith(why)


def test_numbered_names_are_found_where_the_data_have_them(read):
    frame = FRAME.rename(columns={"width": "f0", "height": "f1", "1st size (€)": "f2"})
    about = {"feature_names_in": ["f0", "f1", "f2"]}
    np.testing.assert_array_equal(read(frame[frame.columns[::-1]], about=about)[1]["X"], DUE)


def test_other_columns_next_to_those_of_several_inputs_are_told(read):
    inputs = [{"name": name, "dtype": "float64", "shape": ["batch", 1]} for name in NAMES]
    said, feeds = read(WITH_ID[WITH_ID.columns[::-1]], inputs=inputs, about={"split": True, "feature_names_in": NAMES})
    assert [feeds[name].ravel().tolist() for name in NAMES] == [list(column) for column in zip(*DUE, strict=True)]
    assert said == ["gate (rows.csv): the columns 'more', 'id' are none of the model's, and left out"]
    error, _ = read(FRAME.drop(columns="height"), inputs=inputs, about={})
    assert "'height'" in error["why"]


def test_a_table_that_is_one_array_is_taken_as_it_is(worker, make_job, save):
    path = save("rows.npz", X=np.array(DUE), target=np.array([0, 1]), weight=np.ones(2))
    job = make_job("tabular-classification", inputs=[X], outputs=[PROBABILITIES], splits={"gate": {"path": path}})
    job["input"]["metadata"] = {"sklearn": {"feature_names_in": NAMES}}
    assert worker.read(job)["warnings"] == []
