"""Probes stay inside the ranges that a recipe states."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.comparing.probes import make_probes
from kedro_hone.comparing.ranges import confine
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.artifact import TensorSpec

SPECS = [
    TensorSpec(name="ids", dtype="int64", shape=("batch", 4)),
    TensorSpec(name="x", dtype="float32", shape=("batch", 2)),
]
BASE = {"ids": np.arange(28).reshape(7, 4) % 9, "x": np.ones((7, 2), np.float32)}
PROBES = make_probes(SPECS, BASE, masks=(), limits={}, seed=0)


def test_no_whole_number_is_outside_and_both_ends_are_asked():
    found = confine(PROBES, BASE, {"ids": (0, 30)}, seed=0)
    assert all((probe.feeds["ids"] >= 0).all() and (probe.feeds["ids"] <= 30).all() for probe in found)
    assert found[-1].name == "ids of 0 to 30"
    assert {0, 30} <= set(found[-1].feeds["ids"].ravel().tolist())
    assert found[-1].feeds["ids"].dtype == np.int64
    assert {probe.name for probe in found} >= {"zeros", "NaN in x"}


def test_without_ranges_nothing_changes():
    assert confine(PROBES, BASE, {}, seed=0) == PROBES


@pytest.mark.parametrize("name", ["id", "text"])
def test_a_range_of_no_input_is_refused(name):
    with pytest.raises(HoneError, match=name) as refused:
        confine(PROBES, {**BASE, "text": np.array([["a"]] * 7)}, {name: (0, 1)}, seed=0)
    assert refused.value.slug == "recipe-invalid"
    assert "ids, x" in refused.value.why
