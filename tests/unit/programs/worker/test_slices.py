"""Slices: which rows are together, and which columns cannot divide a split."""

from __future__ import annotations

import numpy as np
import pytest

N = 60


@pytest.fixture
def divide(worker, make_job, save, tmp_path):
    def divide(by, *, rows=N, options=None, program="image-classification", **data):
        job = make_job(program, program_options=options, gate=save("gate.npz", **data), by=by, rows=rows)
        found = worker.divide(job)
        if "error" in found:
            return found["error"]
        with np.load(tmp_path / "output" / "codes.npz") as archive:
            return [(one["name"], one["n"]) for one in found["slices"]], archive["codes"]

    return divide


IMAGES = np.zeros((N, 2, 2), np.float32)


def test_each_value_of_a_column_is_a_slice(divide):
    sizes, codes = divide("hospital", x=IMAGES, hospital=np.repeat(["b", "a"], [20, 40]))
    assert sizes == [("a", 40), ("b", 20)]
    assert codes.tolist() == [1] * 20 + [0] * 40


@pytest.mark.parametrize("by", ["label", "target", "labels"])
def test_the_labels_are_found_by_their_usual_names(divide, by):
    sizes, _ = divide(by, x=IMAGES, y=np.repeat([3, 7], [10, 50]))
    assert sizes == [("3", 10), ("7", 50)]


def test_the_labels_have_the_name_in_the_options(divide):
    options = {"arrays": {"target": "kind"}}
    assert divide("label", x=IMAGES, kind=np.repeat([0, 1], 30), options=options)[0] == [("0", 30), ("1", 30)]
    assert divide("kind", x=IMAGES, kind=np.repeat([0, 1], 30), options=options)[0] == [("0", 30), ("1", 30)]


def test_a_column_is_an_array_of_one_column(divide):
    assert divide("a", x=IMAGES, a=np.zeros((N, 1)))[0] == [("0", N)]


def test_missing_values_are_one_slice_and_close_numbers_are_not(divide):
    values = np.repeat([np.nan, 1234567.0, 1234568.0], 20)
    assert divide("a", x=IMAGES, a=values)[0] == [("1234567", 20), ("1234568", 20), ("missing", 20)]


@pytest.mark.parametrize(
    ("by", "data", "said"),
    [
        ("nothing", {}, "no column 'nothing'"),
        ("label", {}, "no column 'label'"),
        ("x", {}, "the shape (60, 2, 2)"),
        ("a", {"a": np.arange(N) / 7}, "60 different values"),
        ("short", {"short": np.zeros(9)}, "has 9 rows, and the program prepared 60"),
    ],
)
def test_what_cannot_divide_the_rows_is_explained(divide, worker, monkeypatch, by, data, said):  # noqa: PLR0917 - fixtures
    monkeypatch.setattr(worker.slices, "MOST", 50)
    error = divide(by, x=IMAGES, **data)
    assert error["slug"] == "recipe-invalid"
    assert said in f"{error['what']} {error['why']}"
    assert "hone.gates.slices" in error["hint"]


@pytest.fixture
def check(worker, make_job, save):
    def check(by, *, metric=None, **data):
        gate = save("gate.npz", x=IMAGES, **data)
        return worker.check(make_job("image-classification", gate=gate, slices=by, metric=metric))

    return check


def test_the_sizes_are_known_before_there_is_a_model(check):
    assert check("label", label=np.repeat([0, 1], [50, 10]))["slices"] == [
        {"name": "0", "n": 50},
        {"name": "1", "n": 10},
    ]


def test_a_mean_over_classes_has_the_sizes_of_classes_in_each_slice(check):
    found = check("site", site=np.repeat([0, 1], 30), label=np.tile([0, 1, 1], 20), metric="balanced_accuracy")
    assert [one["classes"] for one in found["slices"]] == [[10, 20], [10, 20]]


@pytest.mark.parametrize("metric", ["f1_macro", "roc_auc", "recall"])
def test_a_metric_that_compares_classes_is_refused_for_slices_that_are_classes(check, metric):
    error = check("label", label=np.tile([0, 1], 30), metric=metric)["error"]
    assert error["slug"] == "recipe-invalid"
    assert "not defined on the rows of one class" in error["what"]
    assert "error" not in check("site", label=np.tile([0, 1], 30), site=np.zeros(N), metric=metric)
