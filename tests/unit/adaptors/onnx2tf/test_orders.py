"""The order of axes in which a converted output is what the model computes."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.onnx2tf.adaptor import TOOLCHAIN

orders = load_file("hone_orders_of_onnx2tf", str(TOOLCHAIN.worker.with_name("orders.py")), parts=False)
DUE = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_equal_values_that_are_not_finite_are_equal(value):
    due = DUE.copy()
    due[:, 1] = value
    assert orders.find_order([due * (1 + 1e-6)], [due]) == (0, 1, 2, 3)
    assert orders.find_order([due.transpose(0, 2, 3, 1)], [due]) == (0, 3, 1, 2)


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_values_that_are_finite_on_one_side_only_differ(value):
    strange = DUE.copy()
    strange[0, 1] = value
    for found, due in ((strange, DUE), (DUE, strange)):
        with pytest.raises(ValueError, match="differs from the model by up to inf"):
            orders.find_order([found], [due])


def test_other_numbers_next_to_equal_infinities_differ():
    due = np.array([[1.0, -np.inf], [2.0, -np.inf]])
    with pytest.raises(ValueError, match=r"by up to 0\.5"):
        orders.find_order([due + 0.5], [due])
