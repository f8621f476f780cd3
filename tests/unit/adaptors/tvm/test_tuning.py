"""Which operators TVM tunes first, and which records are theirs; ``tests/integration/test_tvm.py`` tunes."""

from __future__ import annotations

import json

import pytest

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.tvm import adaptor


@pytest.fixture(scope="module")
def tuning():
    return load_file("tvm_tuning", str(adaptor.TOOLCHAIN.worker.with_name("tuning.py")))


@pytest.mark.parametrize(
    ("works", "order"),
    [
        ([[2.0, 5.0, 3.0]], [(0, 1), (0, 2), (0, 0)]),
        ([[128.0, 320.0], [2.0, 5.0]], [(1, 1), (0, 1), (1, 0), (0, 0)]),  # a batch of 64, and one of 1
        ([[320.0, 128.1], [5.0, 2.0]], [(1, 0), (0, 0), (1, 1), (0, 1)]),  # the shares are as good as equal
        ([[1000.0, 4.0]], [(0, 0)]),  # a reshape stays the loop that it is
        ([[0.0, 0.0], [1.0]], [(1, 0)]),
        ([], []),
    ],
)
def test_each_shape_counts_the_same(tuning, works, order):
    assert tuning.order_tasks(works) == order


@pytest.mark.parametrize(
    ("left", "took", "seconds", "chosen"),
    [
        ([0, 1, 2], {}, 5.0, 1),  # the first of those of which least is known
        ([0, 1, 2], {}, 0.0, None),
        ([0, 1, 2], {1: 130.0, 2: 9.0}, 50.0, 2),  # one long round does not end the others
        ([0, 1], {1: 130.0}, 50.0, None),  # nothing says that the other is shorter
        ([0], {0: 4.0}, 5.0, 0),
        ([], {}, 5.0, None),
    ],
)
def test_no_round_begins_that_is_expected_to_take_longer(tuning, left, took, seconds, chosen):
    assert tuning.choose_operator(left, {0: 16, 1: 8, 2: 8}, took, seconds=seconds) == chosen


def test_only_the_records_of_the_models_own_operators_are_read(tuning):
    own, other = json.dumps(["7", {"trace": 1}]), json.dumps(["8", {"trace": 2}])
    assert tuning.split_lines([own, other, own], ["9", "7"]) == ([other], [[1, {"trace": 1}], [1, {"trace": 1}]])


@pytest.mark.parametrize("line", ["", '["7", {"tra', "7", '["7"]', '[["7", "loops"], {"trace": 1}]', "{}"])
def test_a_line_that_is_no_record_is_dropped(tuning, line):
    assert tuning.split_lines([line], ["7"]) == ([], [])
