from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kedro_hone.core.workers.inside.shapes import ShapedSession, find_shapes, require_shapes

INPUTS = [{"name": "x", "shape": ["batch", "length"]}, {"name": "y", "shape": ["batch", 3]}]


@pytest.mark.parametrize(("rows", "others", "due"), [(2, 2, "two"), (1, 2, "pair"), (2, 1, "rest"), (3, 2, "rest")])
def test_a_call_is_of_the_session_of_its_shapes(rows, others, due):
    sessions = {name: SimpleNamespace(run=lambda feeds, name=name: (name, feeds)) for name in ("rest", "two", "pair")}
    fixed = {((2, 3), (2,)): sessions["two"], ((1, 3), (2,)): sessions["pair"]}
    opened = ShapedSession(sessions["rest"], fixed, ["x", "y"])
    feeds = {"y": np.zeros(others), "x": np.zeros((rows, 3))}  # in another order
    assert opened.run(feeds) == (due, feeds)


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
    with pytest.raises(ValueError, match="no shape of the inputs"):
        require_shapes(INPUTS, sizes)
