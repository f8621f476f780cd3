from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from hone_runtime.sessions.shapes import (
    MOST_BYTES,
    SHAPES,
    ShapedSession,
    choose_shapes,
    find_fixed_batch,
    find_shapes,
    find_whole_outputs,
    open_shaped,
    require_shapes,
)

INPUTS = [{"name": "x", "shape": ["batch", "length"]}, {"name": "y", "shape": ["batch", 3]}]


@pytest.mark.parametrize(("rows", "others", "due"), [(2, 2, "two"), (1, 2, "pair"), (2, 1, "rest"), (3, 2, "rest")])
def test_a_call_is_of_the_session_of_its_shapes(rows, others, due):
    sessions = {name: SimpleNamespace(run=lambda feeds, name=name: (name, feeds)) for name in ("rest", "two", "pair")}
    fixed = {((2, 3), (2,)): sessions["two"], ((1, 3), (2,)): sessions["pair"]}
    opened = ShapedSession(sessions["rest"], fixed, ["x", "y"])
    feeds = {"y": np.zeros(others), "x": np.zeros((rows, 3))}  # in another order
    assert opened.run(feeds) == (due, feeds)


def test_operators_are_those_of_the_session_that_serves_the_shapes():
    fixed = {((2, 3),): SimpleNamespace(count_operators=lambda feeds: {"int8": {"Gemm": len(feeds)}})}
    opened = ShapedSession(SimpleNamespace(), fixed, ["x"])
    assert opened.count_operators({"x": np.zeros((2, 3))}) == {"int8": {"Gemm": 1}}
    assert opened.count_operators({"x": np.zeros((5, 3))}) is None


def test_the_shapes_of_the_inputs_are_those_at_the_sizes():
    assert require_shapes(INPUTS, {"batch": 2, "length": 5, "unused": 1}) == ((2, 5), (2, 3))
    assert find_shapes([{"name": "x", "shape": [1, 3]}], {"batch": 2}) is None, "nothing is dynamic"


@pytest.mark.parametrize(
    "sizes",
    [
        {"batch": 2},
        {"batch": 2, "length": 0},
        {"batch": True, "length": 1},
        {"batch": 1 << 31, "length": 1},
        ["batch"],
        3,
    ],
    ids=str,
)
def test_what_is_no_shape_is_refused(sizes):
    assert find_shapes(INPUTS, sizes) is None
    with pytest.raises(ValueError, match="not a shape of the inputs"):
        require_shapes(INPUTS, sizes)


def make_job(*sizes, noted=None, fixed_shapes=True, **metadata):
    """Return the job of a model whose recipe names shapes, or that was compiled for some."""
    metadata |= {} if noted is None else {SHAPES: noted}
    shapes = [{"name": str(number), "sizes": each} for number, each in enumerate(sizes)]
    model = {"inputs": INPUTS, "metadata": metadata}
    return {"input": model, "shapes": shapes, "options": {"fixed_shapes": fixed_shapes}}


def open_pairs(job, shapes):
    """Open a model that takes any number of rows, or an even one."""
    if shapes and shapes["x"][0] % 2:
        raise ValueError("rows in pairs")
    return shapes


def test_a_model_is_opened_for_each_shape_that_its_metadata_name():
    opened = open_shaped(make_job(noted=[{"batch": 2, "length": 5}] * 2), open_pairs, weights=MOST_BYTES)
    assert opened.find(((2, 5), (2, 3))) == {"x": (2, 5), "y": (2, 3)}
    assert opened.find(((4, 5), (4, 3))) is None, "the one for any shape"
    assert open_shaped(make_job(), open_pairs, weights=MOST_BYTES + 1) is None
    assert open_shaped(make_job(noted=[]), open_pairs, weights=1) is None


@pytest.mark.parametrize("noted", [{"batch": 2}, [{"batch": 2, "length": 1}] * 9, "batch"], ids=str)
def test_too_many_shapes_or_none_are_refused(noted):
    with pytest.raises(ValueError, match="not a list of at most 8 shapes"):
        open_shaped(make_job(noted=noted), open_pairs, weights=1)


@pytest.mark.attack(
    what="metadata of a winner that have a large model opened again for each of many shapes",
    who="registry",
    stopped_by="shapes are opened of small models only",
)
def test_a_large_model_is_not_opened_again_for_shapes():
    with pytest.raises(ValueError, match="of a model of 128 MiB"):
        open_shaped(make_job(noted=[{"batch": 2, "length": 5}]), open_pairs, weights=MOST_BYTES + 1)


def test_chosen_are_the_shapes_that_the_graph_fits_once_each():
    sizes = [{"batch": batch, "length": 5} for batch in (1, 2, 2, 4)]
    job = make_job(*sizes, {"batch": 8})
    assert choose_shapes(job, open_pairs, weights=1) == [sizes[1], sizes[3]]
    many = make_job(*({"batch": 2, "length": length} for length in range(1, 20)))
    assert len(choose_shapes(many, open_pairs, weights=1)) == 8


@pytest.mark.parametrize(
    ("job", "weights"), [({"fixed_shapes": False}, 1), ({"cache": {}}, 1), ({}, MOST_BYTES + 1)], ids=str
)
def test_nothing_is_chosen_where_it_does_not_pay(job, weights):
    assert choose_shapes(make_job({"batch": 2, "length": 5}, **job), open_pairs, weights=weights) == []


@pytest.mark.parametrize(
    ("shapes", "batch"),
    [
        ([(1, 3, "height", "width")], 1),
        ([(4, 8), (4,), ()], 4),
        ([("batch", 8)], None),
        ([("batch", 8), (1, 8)], 1),
        ([("sequence", 576), (1, 1, 128), (1, 1, 128)], 1),
        ([(0, 8)], None),
        ([("batch", 512), (2, "batch", 128)], None),
        ([("batch", 512), (1, "batch", 128)], None),  # its rows are on the second axis
        ([("input_0", "input_1"), (2, "state_1", 128)], None),
        ([(1, 512), (2, 1, 64)], None),  # the first of them may be no rows
        ([()], None),
        ([], None),
    ],
)
def test_a_batch_is_fixed_where_an_input_has_one(shapes, batch):
    assert find_fixed_batch(shapes) == batch


@pytest.mark.parametrize(
    ("inputs", "outputs", "whole"),
    [
        ([(1, 3, 64, "width")], [("time", 1, 5), (1, 5), ()], {"0", "2"}),
        ([(1, 8)], [(3549, 6), ("batch", 4)], {"0", "1"}),
        ([("rows", 8), (1, 1, 4)], [("rows", 5), ("time", 1, 5)], {"1"}),
        ([("batch", 8)], [("time", "batch", 5)], set()),
        ([(4, 8)], [(12, 4)], set()),
    ],
)
def test_an_output_of_a_model_of_single_rows_is_one_row_where_it_has_none_first(inputs, outputs, whole):
    specs = [[{"name": str(at), "shape": shape} for at, shape in enumerate(side)] for side in (inputs, outputs)]

    assert find_whole_outputs(*specs) == whole
