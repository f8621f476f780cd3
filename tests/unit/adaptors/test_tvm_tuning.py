"""Which operators TVM tunes first. The tuning itself is in ``tests/integration/test_tvm.py``."""

from __future__ import annotations

import pytest

from kedro_hone.adaptors.tvm import adaptor
from kedro_hone.core.workers.inside.loading import load_file


@pytest.fixture(scope="module")
def tuning():
    return load_file("tvm_tuning", str(adaptor.TOOLCHAIN.folder / "worker" / "tuning.py"))


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
