"""Inputs whose first axis is not that of the rows: the axis is named, and the way out."""

from __future__ import annotations

import numpy as np
import pytest

SEQUENCE = {"name": "x", "dtype": "float32", "shape": [12, "batch", 6]}
STATE = {"name": "state", "dtype": "float32", "shape": [2, "batch", 8]}
RATE = {"name": "sr", "dtype": "int64", "shape": []}
ROWS = {"name": "x", "dtype": "float32", "shape": ["batch", 6]}


def read(worker, make_job, save, inputs, **arrays):
    paths = {"search": {"path": save("search.npz", **arrays)}}
    return worker.read(make_job("fidelity", inputs=inputs, program_options={}, splits=paths))


def test_rows_on_another_axis_by_the_models_own_word(worker, make_job, save):
    arrays = {"x": np.zeros((12, 40, 6), "f4"), "state": np.zeros((2, 40, 8), "f4")}

    error = read(worker, make_job, save, (SEQUENCE, STATE), **arrays)["error"]

    assert error["slug"] == "source-not-rowwise"
    assert error["what"] == "Input 'x' of the source model has no row for each row of the data."
    assert error["why"] == "its shape is (12, batch, 6): the rows are on axis 1"
    assert "x.transpose(0, 1)" in error["hint"]


@pytest.mark.parametrize("value", [np.array(16000), np.full(40, 16000)])
def test_one_number_for_all_rows(worker, make_job, save, value):
    error = read(worker, make_job, save, (ROWS, RATE), x=np.zeros((40, 6), "f4"), sr=value)["error"]

    assert (error["slug"], error["why"]) == ("source-not-rowwise", "it is one number for all rows")
    assert "'sr'" in error["what"]
    assert "constant" in error["hint"]


@pytest.mark.parametrize("names", [("time", "n"), ("size_0", "size_1")])
def test_rows_on_another_axis_by_the_data(worker, make_job, save, names):
    inputs = ({**SEQUENCE, "shape": [12, names[0], 6]}, {**ROWS, "name": "lengths", "shape": [names[1], 3]})
    arrays = {"x": np.zeros((12, 40, 6), "f4"), "lengths": np.zeros((40, 3), "f4")}

    error = read(worker, make_job, save, inputs, **arrays)["error"]

    assert (error["slug"], error["why"]) == (
        "source-not-rowwise",
        "the data have (12, 40, 6): there are 40 rows on axis 1",
    )


def test_other_numbers_of_rows_are_still_the_datas_fault(worker, make_job, save):
    inputs = (ROWS, {**ROWS, "name": "other"})

    error = read(worker, make_job, save, inputs, x=np.zeros((40, 6), "f4"), other=np.zeros((39, 6), "f4"))["error"]

    assert error["slug"] == "data-unreadable"
    assert "different numbers of rows" in error["why"]


def test_a_length_that_all_inputs_share_is_not_taken_for_the_rows(worker, make_job, save):
    inputs = tuple({"name": name, "dtype": "float32", "shape": ["batch", "length"]} for name in ("ids", "mask"))

    error = read(worker, make_job, save, inputs, ids=np.zeros((40, 12), "f4"), mask=np.zeros((39, 12), "f4"))["error"]

    assert error["slug"] == "data-unreadable"
