"""Reading splits: formats, the fit to the model, overlaps, and what is said of bad data."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

TABLE_INPUT = {"name": "features", "dtype": "float32", "shape": ["batch", 3]}


def read(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.fixture
def images(random):
    return random.integers(0, 255, (6, 4, 4), dtype=np.uint8)


def splits(**paths):
    return {name: {"path": str(path)} for name, path in paths.items()}


def test_images_become_feeds_and_targets(worker, make_job, save, images):
    path = save("a.npz", images=images, labels=np.arange(6) % 3)
    job = make_job("image-classification", program_options={"scale": 0.5}, splits=splits(search=path))

    notes = worker.read(job)

    feeds = read(Path(job["output"], "search", "feeds.npz"))["x"]
    assert (feeds.dtype, feeds.shape) == (np.float32, (6, 1, 4, 4))
    np.testing.assert_array_equal(feeds[:, 0], images * 0.5)
    np.testing.assert_array_equal(read(Path(job["output"], "search", "targets.npz"))["target"], np.arange(6) % 3)
    assert notes == {"splits": {"search": {"n": 6}}, "overlaps": [], "warnings": []}


def test_a_planted_row_is_found(worker, make_job, save, images):
    other = 255 - images
    other[[2, 4]] = images[[1, 3]]
    labels = np.zeros(6, dtype=int)
    paths = {
        "calibration": save("a.npz", images=images),
        "search": save("b.npz", images=other, labels=labels),
        "gate": save("c.npz", images=images // 2, labels=labels),
    }
    job = make_job("image-classification", splits=splits(**paths))
    notes = worker.read(job)
    assert notes["overlaps"] == [{"splits": ["calibration", "search"], "count": 2, "example_rows": [1, 2]}]
    assert read(Path(job["output"], "calibration", "targets.npz")) == {}


@pytest.mark.parametrize("suffix", ["csv", "parquet", "folder"])
def test_tables(worker, make_job, tmp_path, suffix):
    if suffix == "parquet" and not importlib.util.find_spec("pyarrow"):
        pytest.skip("pandas has no reader of parquet here")
    frame = pd.DataFrame({"a": [1.0, 2.0], "species": ["cat", "dog"], "b": [3, 4], "c": [True, False]})
    path = tmp_path / f"table.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "parquet":
        frame.to_parquet(path)
    else:
        path.mkdir()
        frame[:1].to_csv(path / "1.csv", index=False)
        frame[1:].to_csv(path / "2.csv", index=False)
    options = {"arrays": {"target": "species"}, "classes": ["dog", "cat"]}
    outputs = [{"name": "logits", "dtype": "float32", "shape": ["batch", 2]}]
    job = make_job(
        "tabular-classification",
        inputs=[TABLE_INPUT],
        outputs=outputs,
        program_options=options,
        splits=splits(gate=path),
    )
    assert worker.read(job)["splits"]["gate"]["n"] == 2
    np.testing.assert_array_equal(
        read(Path(job["output"], "gate", "feeds.npz"))["features"], np.float32([[1, 3, 1], [2, 4, 0]])
    )
    np.testing.assert_array_equal(read(Path(job["output"], "gate", "targets.npz"))["target"], [1, 0])


def test_npy_and_a_folder_of_npy(worker, make_job, tmp_path, random):
    rows = random.normal(size=(5, 3))
    np.save(tmp_path / "anything.npy", rows)
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "features.npy", rows + 1)
    np.save(folder / "y.npy", rows[:, 0])
    paths = splits(one=tmp_path / "anything.npy", two=folder)
    job = make_job("fidelity", inputs=[TABLE_INPUT], splits=paths)
    notes = worker.read(job)
    assert {name: split["n"] for name, split in notes["splits"].items()} == {"one": 5, "two": 5}


def test_several_inputs_of_dynamic_size(worker, make_job, save):
    inputs = [
        {"name": "ids", "dtype": "int64", "shape": ["batch", "length"]},
        {"name": "mask", "dtype": "int64", "shape": ["batch", "length"]},
    ]
    good = save("good.npz", ids=np.ones((2, 5), np.int32), mask=np.ones((2, 5)))
    bad = save("bad.npz", ids=np.ones((2, 5), np.int32), mask=np.ones((2, 4)))
    job = make_job("fidelity", inputs=inputs, splits=splits(search=good))
    worker.read(job)
    assert read(Path(job["output"], "search", "feeds.npz"))["mask"].dtype == np.int64
    error = worker.read(make_job("fidelity", inputs=inputs, splits=splits(search=bad)))["error"]
    assert error["slug"] == "data-unreadable"
    assert "length is 5 elsewhere" in error["why"]


@pytest.mark.parametrize(
    ("arrays", "slug", "text"),
    [
        ({"images": np.zeros((2, 5, 5)), "labels": np.zeros(2)}, "data-unreadable", "does not fit"),
        ({"images": np.zeros((2, 4, 4)), "labels": np.zeros(3)}, "labels-mismatch", "3 rows"),
        ({"images": np.zeros((2, 4, 4)), "labels": [0, 3]}, "labels-mismatch", "label 3"),
        ({"images": np.zeros((2, 4, 4)), "labels": [0, -1]}, "labels-mismatch", "label -1"),
        ({"images": np.zeros((2, 4, 4)), "labels": [0, 0.5]}, "labels-mismatch", "not a class number"),
        ({"images": np.zeros((2, 4, 4)), "labels": ["a", "b"]}, "labels-mismatch", "not class numbers"),
        ({"images": np.zeros((0, 4, 4)), "labels": np.zeros(0)}, "data-empty", "none"),
        ({"images": np.zeros((0, 4, 4)), "labels": np.array([], str)}, "data-empty", "none"),
        ({"images": np.zeros((2, 4, 4))}, "data-unreadable", "cannot be scored"),
        ({"pictures": np.zeros((2, 4, 4)), "labels": [0, 1]}, "data-unreadable", "pictures"),
        ({"images": np.full((2, 4, 4), 1e300), "labels": [0, 1]}, "data-unreadable", "do not fit float32"),
        ({"images": np.full((2, 4, 4), "a"), "labels": [0, 1]}, "data-unreadable", "not numbers"),
    ],
)
def test_bad_data_is_explained(worker, make_job, save, arrays, slug, text):  # noqa: PLR0917 - fixtures
    job = make_job("image-classification", splits=splits(search=save("a.npz", **arrays)))
    error = worker.read(job)["error"]
    assert set(error) == {"slug", "what", "why", "hint"}
    assert error["slug"] == slug
    assert text in error["why"]
    assert "search" in error["what"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npz", b"not a zip"),
        ("a.npz", b"PK\x03\x04 cut"),
        ("a.npy", b""),
        ("a.csv", b""),
        ("a.csv", b'a,b\n1,2\n3,4,5\n"'),
        ("a.csv", b"\xff\xfe\xfa"),
        ("a.txt", b"1 2 3"),
        ("a.parquet", b"PAR1"),
    ],
)
def test_unreadable_files(worker, make_job, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    error = worker.read(make_job("fidelity", splits=splits(search=tmp_path / name)))["error"]
    assert error["slug"] == "data-unreadable"
    assert name in error["what"]


@pytest.mark.attack(what="a pickle in the data", who="data", stopped_by="arrays are read without pickles, in a worker")
def test_a_pickle_is_not_loaded(worker, make_job, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{"code": print}], dtype=object))
    error = worker.read(make_job("fidelity", splits=splits(search=tmp_path / "a.npz")))["error"]
    assert (error["slug"], "pickle" in error["why"]) == ("data-unreadable", True)


def test_a_folder_of_several_kinds_or_none(worker, make_job, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    job = make_job("fidelity", splits=splits(search=folder))
    assert worker.read(job)["error"]["slug"] == "data-unreadable"
    np.save(folder / "a.npy", np.zeros(2))
    (folder / "b.csv").write_text("a\n1\n")
    assert ".csv and .npy" in worker.read(job)["error"]["why"]


def test_an_unknown_option_is_refused_with_the_nearest_name(worker, make_job, save, images):
    path = save("a.npz", images=images)
    job = make_job("image-classification", program_options={"clases": ["a"]}, splits=splits(calibration=path))
    error = worker.read(job)["error"]
    assert (error["slug"], "classes" in error["why"]) == ("recipe-invalid", True)


def test_the_programs_own_bug_is_raised(worker, make_job, save, tmp_path, images):
    (tmp_path / "mine.py").write_text("def prepare(data, job):\n    raise RuntimeError('mine')\n")
    job = make_job("mine.py", splits=splits(search=save("a.npz", images=images)))
    with pytest.raises(RuntimeError, match="mine"):
        worker.read(job)


def test_the_users_program_imports_from_the_project(worker, make_job, save, tmp_path, images, monkeypatch):  # noqa: PLR0917 - fixtures
    monkeypatch.setattr("sys.path", __import__("sys").path.copy())
    package = tmp_path / "src" / "hone_users_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "shared.py").write_text("def double(x):\n    return x[:, None] * 2.0\n")
    (package / "program.py").write_text(
        "from hone_users_package.shared import double\n"
        "NEEDS_TARGETS = False\n"
        "def prepare(data, job):\n    return {'x': double(data['images'])}, {}\n"
    )
    job = make_job("hone_users_package.program", splits=splits(search=save("a.npz", images=images)))
    assert worker.read(job)["splits"]["search"]["n"] == 6
    np.testing.assert_array_equal(read(Path(job["output"], "search", "feeds.npz"))["x"][:, 0], images * 2.0)


@pytest.mark.parametrize(
    ("data", "dtype", "fits"),
    [
        (np.array([1, 255]), "uint8", True),
        (np.array([1, 256]), "uint8", False),
        (np.array([1.0, 2.0]), "int64", True),
        (np.array([1.5]), "int64", False),
        (np.array([np.nan]), "int32", False),
        (np.array([np.nan, np.inf]), "float32", True),
        (np.array([1e6]), "float16", False),
        (np.array([0.1]), "float32", True),
        (np.array([1.0]), "bfloat16", False),
        (np.array(["a"]), "float32", False),
        (np.array([1]), "str", False),
    ],
)
def test_casts_that_change_the_meaning_are_refused(worker, data, dtype, fits):
    assert (worker.splits.find_lossy_cast(data, dtype) is None) is fits


@pytest.mark.parametrize(("copies", "warned"), [(0, False), (1, False), (3, True), (199, True)])
def test_rows_of_a_gate_split_that_are_copies_are_counted(worker, make_job, save, copies, warned):
    """Each row counts in the interval as a row of its own; a few equal rows are found in honest tables too."""
    rows = np.arange(600, dtype=np.float32).reshape(200, 3)
    rows[len(rows) - copies :] = rows[0]
    paths = splits(calibration=save("a.npz", features=np.zeros((9, 3))), gate=save("b.npz", features=rows))
    notes = worker.read(make_job("fidelity", inputs=[TABLE_INPUT], splits=paths))
    line = f"gate (b.npz): {copies} of 200 rows are copies of other rows; they prove nothing more"
    assert notes["warnings"] == [line] * warned


def test_rows_with_numbers_that_are_not_finite_are_counted(worker, make_job, save):
    rows = np.zeros((5, 3), np.float32)
    rows[1, 0], rows[1, 2], rows[4, 1] = np.nan, np.inf, -np.inf
    paths = splits(calibration=save("a.npz", features=rows), gate=save("b.npz", features=np.arange(12.0).reshape(4, 3)))
    notes = worker.read(make_job("fidelity", inputs=[TABLE_INPUT], splits=paths))
    assert notes["warnings"] == ["calibration (a.npz): 2 of 5 rows hold numbers that are not finite, in 'features'"]
    assert notes["splits"]["calibration"]["n"] == 5


def test_one_line_names_all_splits(worker, make_job, save):
    """Three splits with a missing value each, and a column too many, were six lines."""
    columns = {"a": np.zeros((4, 1), np.float32), "b": np.zeros((4, 1), np.float32)}
    columns["a"][1] = np.nan
    inputs = [{"name": name, "dtype": "float32", "shape": ["batch", 1]} for name in "ab"]
    other = columns | {"b": np.full((4, 1), np.inf, np.float32), "a": np.arange(4.0, dtype=np.float32)[:, None]}
    paths = splits(calibration=save("c.npz", **columns), gate=save("g.npz", **other))
    notes = worker.read(make_job("fidelity", inputs=inputs, splits=paths))
    odd = [line for line in notes["warnings"] if "not finite" in line]
    assert odd == [
        "calibration (c.npz): 1 of 4, gate (g.npz): 4 of 4 rows hold numbers that are not finite, in 'a', 'b'"
    ]


def test_columns_with_missing_values_are_named_in_one_line(worker, make_job, save):
    columns = {name: np.zeros((4, 1), np.float32) for name in "abc"}
    columns["a"][1], columns["c"][1:3] = np.nan, np.nan
    inputs = [{"name": name, "dtype": "float32", "shape": ["batch", 1]} for name in "abc"]
    paths = splits(gate=save("b.npz", **columns))
    notes = worker.read(make_job("fidelity", inputs=inputs, splits=paths))
    assert "gate (b.npz): 2 of 4 rows hold numbers that are not finite, in 'a', 'c'" in notes["warnings"]


@pytest.mark.parametrize("program", ["image-classification", "tabular-regression", "fidelity"])
@pytest.mark.parametrize("arrays", [{}, {"input_0": "pixels"}])
def test_an_array_may_have_the_number_of_an_input_that_has_a_name_now(worker, make_job, save, program, arrays):
    inputs = [{"name": "signal", "dtype": "float32", "shape": ["batch", 1, 3]}]
    rows = np.arange(12).reshape(4, 1, 3)
    data = {arrays.get("input_0", "input_0"): rows, "target": np.arange(4) % 3, "more": rows}
    job = make_job(
        program, inputs=inputs, program_options={"arrays": arrays}, splits=splits(search=save("a.npz", **data))
    )
    notes = worker.read(job)
    assert "error" not in notes, notes
    np.testing.assert_array_equal(read(Path(job["output"], "search", "feeds.npz"))["signal"], rows)


def test_a_name_that_is_missing_says_how_to_name_it(worker, make_job, save):
    inputs = [{"name": "signal", "dtype": "float32", "shape": ["batch", 1, 3]}]
    path = save("a.npz", wave=np.zeros((4, 1, 3)), label=np.zeros(4))
    error = worker.read(make_job("fidelity", inputs=inputs, splits=splits(search=path)))["error"]
    assert error["why"] == (
        "no array for the model's input 'signal'; the data have wave, label; "
        "name it by `hone.program.options.arrays: {signal: wave}`"
    )
