"""Labels as users have them: floats, counted from 1, with gaps, as text; each is converted or refused with words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

N = 60
PROGRAMS = ("image-classification", "tabular-classification")
TABLE = {"name": "x", "dtype": "float32", "shape": ["batch", 4]}
IMAGE = {"name": "x", "dtype": "float32", "shape": ["batch", 1, 2, 2]}


def load(path, name):
    with np.load(path) as archive:
        return archive[name]


@pytest.fixture(params=PROGRAMS)
def program(request):
    return request.param


@pytest.fixture
def read(worker, make_job, save, program, random):
    """Let a program read one split with these labels, for a model with three classes."""

    def read(labels, *, outputs=None, **options):
        rows = random.normal(size=(len(labels), 4)).astype(np.float32)
        spec = TABLE if program == "tabular-classification" else IMAGE
        path = save("a.npz", x=rows.reshape(len(labels), *spec["shape"][1:]), labels=labels)
        splits = {"search": {"path": path}}
        known = outputs or [{"name": "scores", "dtype": "float32", "shape": ["batch", 3]}]
        job = make_job(program, inputs=[spec], outputs=known, program_options=options, splits=splits)
        return worker.read(job), Path(job["output"], "search", "targets.npz")

    return read


@pytest.fixture
def evaluate(worker, make_job, save, program):
    """Score a source against itself."""

    def evaluate(source, targets, **options):
        paths = {"source": save("source.npz", **source), "targets": save("targets.npz", target=targets)}
        job = make_job(program, program_options=options, candidates={"same": paths["source"]}, **paths)
        return worker.evaluate(job)

    return evaluate


def test_whole_floats_are_converted_and_it_is_said(read):
    notes, targets = read(np.array([0.0, 2.0, 1.0]))
    assert load(targets, "target").dtype == np.int64
    assert load(targets, "target").tolist() == [0, 2, 1]
    (warning,) = notes["warnings"]
    assert "labels are float64" in warning
    assert warning.startswith("search (a.npz): ")


def test_whole_numbers_need_no_word(read):
    for labels in (np.array([0, 2, 1]), np.array([0, 2, 1], np.uint8), np.array([True, False])):
        notes, _ = read(labels)
        assert notes["warnings"] == []


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([0.0, np.nan, 1.0], "row 1 has no label (nan)"),
        ([0.0, 1.0, np.inf], "row 2 has no label (inf)"),
        ([0.0, 1.5, 1.0], "row 1 has the label 1.5"),
    ],
)
def test_floats_that_are_no_classes_are_refused(read, labels, says):
    error = read(np.array(labels))[0]["error"]
    assert error["slug"] == "labels-mismatch"
    assert says in error["why"]


def test_labels_from_one_are_refused_with_the_way_out(read):
    error = read(np.array([1, 2, 3]))[0]["error"]
    assert error["slug"] == "labels-mismatch"
    assert "run from 1 to 3" in error["why"]
    assert "count from 0" in error["why"]
    assert "subtract 1" in error["why"]
    assert read(np.array([1, 2]))[0]["splits"]["search"]["n"] == 2  # a small split may lack a class


@pytest.mark.parametrize("labels", [np.array(["cat", "dog", "cat"]), np.array([b"cat", b"dog", b"cat"])])
def test_names_of_classes_need_the_option(read, labels):
    error = read(labels)[0]["error"]
    assert error["slug"] == "labels-mismatch"
    assert "labels are text" in error["why"]
    assert "'cat'" in error["why"]
    assert "program.options.classes" in error["why"]


def test_names_of_classes_become_numbers(read):
    notes, targets = read(np.array(["cat", "dog", "cat"]), classes=["dog", "cat", "cow"])
    assert notes["warnings"] == []
    assert load(targets, "target").tolist() == [1, 0, 1]


def test_a_class_too_few_or_too_many_is_refused(read):
    for names in (["dog", "cat"], ["dog", "cat", "cow", "pig"]):
        error = read(np.array(["cat", "dog", "cat"]), classes=names)[0]["error"]
        assert error["slug"] == "labels-mismatch"
        assert f"names {len(names)} classes, and the model has 3" in error["why"]


def test_labels_from_one_are_found_by_the_predictions(evaluate, random):
    """Where nothing tells the number of classes, or where the last class is rare: the source's predictions tell."""
    classes = random.integers(0, 3, N)
    for source in ({"label": classes}, {"scores": np.eye(4, dtype=np.float32)[classes]}):
        error = evaluate(source, classes + 1)["error"]
        assert error["slug"] == "labels-mismatch"
        assert "count from 0" in error["why"]
        assert "subtract 1" in error["why"]
        assert evaluate(source, classes)["candidates"]["same"]["source"] == 1.0


def test_a_model_whose_own_labels_count_from_one(evaluate, random):
    classes = random.integers(1, 4, N)
    assert evaluate({"label": classes}, classes)["candidates"]["same"]["source"] == 1.0


def test_a_bad_source_is_no_shift(evaluate, random):
    classes = random.integers(1, 4, N)
    guesses = random.integers(0, 4, N)
    assert evaluate({"label": guesses}, classes)["candidates"]["same"]["source"] < 0.6


def test_text_labels_of_a_model_that_names_its_classes(read, evaluate, random):
    outputs = [{"name": "label", "dtype": "str", "shape": ["batch"]}]
    notes, targets = read(np.array(["cat", "dog", "cat"]), outputs=outputs)
    assert notes["splits"]["search"]["n"] == 3
    assert load(targets, "target").tolist() == ["cat", "dog", "cat"]
    names = np.array(["cat", "dog", "cow"])[random.integers(0, 3, N)]
    assert evaluate({"label": names}, names)["candidates"]["same"]["source"] == 1.0


def test_text_predictions_need_text_labels_or_the_names(read, evaluate):
    outputs = [{"name": "label", "dtype": "str", "shape": ["batch"]}]
    error = read(np.array([0, 1, 2]), outputs=outputs)[0]["error"]
    assert (error["slug"], "program.options.classes" in error["why"]) == ("labels-mismatch", True)
    _, targets = read(np.array(["a", "b", "c"]), outputs=outputs, classes=["a", "b", "c"])
    assert load(targets, "target").tolist() == [0, 1, 2]
    row = evaluate({"label": np.array(["a", "b", "z"])}, np.array([0, 1, 2]), classes=["a", "b", "c"])
    assert row["candidates"]["same"]["source"] == pytest.approx(2 / 3)
