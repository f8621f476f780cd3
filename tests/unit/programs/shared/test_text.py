"""Text as the input of a model: from every kind of file, without a pickle, and what is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

COLOR = {"name": "color", "dtype": "str", "shape": ["batch", 1]}
SIZE = {"name": "size", "dtype": "float32", "shape": ["batch", 1]}
SCORES = {"name": "scores", "dtype": "float32", "shape": ["batch", 2]}
COLORS = ["red", "bläulich", "green", "red"]


def load(job, split, name="feeds"):
    with np.load(Path(job["output"], split, f"{name}.npz"), allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


@pytest.fixture
def read(worker, make_job):
    def read(path, *, program="tabular-classification", inputs=(COLOR, SIZE), **splits):
        paths = {name: {"path": str(file)} for name, file in {"search": path, **splits}.items()}
        job = make_job(program, inputs=inputs, outputs=[SCORES], splits=paths)
        return worker.read(job), job

    return read


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "categories", "folder"])
@pytest.mark.parametrize("program", ["tabular-classification", "fidelity"])
def test_columns_of_text(read, tmp_path, suffix, program):
    if suffix in {"parquet", "categories"} and not importlib.util.find_spec("pyarrow"):
        pytest.skip("pandas has no reader of parquet here")
    path = tmp_path / f"table.{suffix}"
    frame = pd.DataFrame({"color": COLORS, "size": [1.0, 2.0, 3.0, 4.0], "label": [0, 1, 0, 1]})
    if suffix == "npz":
        np.savez(path, **{name: np.array(frame[name].tolist()) for name in frame})
    elif suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "folder":
        path.mkdir()
        frame[:1].to_csv(path / "1.csv", index=False)
        frame[1:].to_csv(path / "2.csv", index=False)
    else:
        path = tmp_path / "table.parquet"
        frame.astype({"color": "category"} if suffix == "categories" else {}).to_parquet(path)
    notes, job = read(path, program=program)
    assert "error" not in notes, notes
    feeds = load(job, "search")
    assert (feeds["color"].dtype.kind, feeds["color"].shape) == ("U", (4, 1))
    assert feeds["color"][:, 0].tolist() == COLORS
    np.testing.assert_array_equal(feeds["size"], np.float32([[1], [2], [3], [4]]))


def test_a_table_of_text_in_one_input(read, save):
    wide = {"name": "x", "dtype": "str", "shape": ["batch", 2]}
    labels = np.array([0, 1])
    columns = save("a.npz", a=np.array(["u", "v"]), b=np.array(["long", "x"]), label=labels)
    table = save("b.npz", x=np.array([["u", "long"], ["v", "x"]]), label=labels)
    for path in (columns, table):
        notes, job = read(path, inputs=[wide])
        assert "error" not in notes, notes
        assert load(job, "search")["x"].tolist() == [["u", "long"], ["v", "x"]]


def test_one_column_of_text_among_others(read, save):
    path = save("a.npz", color=np.array(["red", "blue"]), size=np.ones(2), label=np.array([0, 1]))
    notes, job = read(path, inputs=[COLOR])
    assert "error" not in notes, notes
    assert load(job, "search")["color"].tolist() == [["red"], ["blue"]]


def test_the_same_row_is_found_whatever_the_longest_text_is(read, save):
    labels = np.array([0, 1])
    sizes = np.array([1.0, 2.0])
    short = save("a.npz", color=np.array(["red", "blue"]), size=sizes, label=labels)
    long = save("b.npz", color=np.array(["ultramarine", "blue"]), size=sizes, label=labels)
    other = save("c.npz", color=np.array(["ultramarine", "blu"]), size=sizes, label=labels)
    notes, _ = read(short, gate=long)
    assert notes["overlaps"] == [{"splits": ["search", "gate"], "count": 1, "example_rows": [1, 1]}]
    assert read(short, gate=other)[0]["overlaps"] == []


def test_where_one_text_ends_and_the_next_begins_counts(read, save):
    wide = {"name": "x", "dtype": "str", "shape": ["batch", 2]}
    one = save("a.npz", x=np.array([["ab", "c"]]), label=np.array([0]))
    two = save("b.npz", x=np.array([["a", "bc"]]), label=np.array([0]))
    assert read(one, inputs=[wide], gate=two)[0]["overlaps"] == []


@pytest.mark.parametrize(
    ("colors", "says"),
    [
        (["red", None, "blue"], "row 1 (line 3 of a .csv file) has no value, and the model takes text there"),
        ([1, 2, 3], "the model takes text, and the data are int64"),
    ],
)
def test_what_is_no_text_is_refused(read, tmp_path, colors, says):
    pd.DataFrame({"color": colors, "size": 1.0, "label": 0}).to_csv(tmp_path / "a.csv", index=False)
    error = read(tmp_path / "a.csv")[0]["error"]
    assert error["slug"] == "data-unreadable"
    assert says in error["why"]
    assert "'color'" in error["why"]


def test_numbers_do_not_become_text_beside_text(read, save):
    wide = {"name": "x", "dtype": "str", "shape": ["batch", 2]}
    path = save("a.npz", a=np.array(["u", "v"]), b=np.array([1, 2]), label=np.array([0, 1]))
    error = read(path, inputs=[wide])[0]["error"]
    assert (error["slug"], "column 'b' holds int64" in error["why"]) == ("data-unreadable", True)


def test_text_for_numbers_is_refused(read, save):
    path = save("a.npz", color=np.array(["u", "v"]), size=np.array(["1", "2"]), label=np.array([0, 1]))
    error = read(path)[0]["error"]
    assert (error["slug"], "not numbers" in error["why"]) == ("data-unreadable", True)


def test_fidelity_compares_text(worker, make_job, save):
    source = save("source.npz", label=np.array(["a", "b", "a"]), scores=np.ones((3, 2)))
    other = save("other.npz", label=np.array(["a", "c", "a"]), scores=np.ones((3, 2)))
    paths = {"source": source, "targets": save("targets.npz"), "candidates": {"other": other}}
    for options in ({}, {"compare": "argmax"}):
        row = worker.evaluate(make_job("fidelity", program_options=options, **paths))["candidates"]["other"]
        assert row["candidate"] == pytest.approx(2 / 3), row
