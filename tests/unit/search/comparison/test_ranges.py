"""Probes stay inside the ranges that a recipe states."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.search.comparison.probes import make_probes
from kedro_hone.search.comparison.ranges import check_ranges, confine

SPECS = [
    TensorSpec(name="ids", dtype="int64", shape=("batch", 4)),
    TensorSpec(name="x", dtype="float32", shape=("batch", 2)),
]
BASE = {"ids": np.arange(28).reshape(7, 4) % 9, "x": np.ones((7, 2), np.float32)}
PROBES = make_probes(SPECS, BASE, masks={}, limits={}, seed=0)


def test_no_whole_number_is_outside_and_both_ends_are_asked():
    found = confine(PROBES, BASE, {"ids": (0, 30)}, seed=0)
    assert all((probe.feeds["ids"] >= 0).all() and (probe.feeds["ids"] <= 30).all() for probe in found)
    assert found[-1].name == "ids of 0 to 30"
    assert {0, 30} <= set(found[-1].feeds["ids"].ravel().tolist())
    assert found[-1].feeds["ids"].dtype == np.int64
    assert {probe.name for probe in found} >= {"zeros", "NaN in x"}


def test_rows_of_the_data_outside_a_range_switch_no_probe_off():
    """The first rows hold 8 and the range ends at 5: each probe has these rows in its other inputs."""
    found = {probe.name for probe in confine(PROBES, BASE, {"ids": (0, 5)}, seed=0)}

    assert {"zeros", "NaN in x", "ids of 0 to 5"} <= found
    assert not any(name.startswith("ids of 256") for name in found)


def test_without_ranges_nothing_changes():
    assert confine(PROBES, BASE, {}, seed=0) == PROBES


def make_spec(dtype):
    return TensorSpec(name="x", dtype=dtype, shape=("batch", 2))


@pytest.mark.parametrize("name", ["id", "text", "flag", "brain"])
def test_a_range_of_no_input_is_refused(name):
    others = {"text": "str", "flag": "bool", "brain": "bfloat16"}
    more = [TensorSpec(name=other, dtype=dtype, shape=("batch", 1)) for other, dtype in others.items()]
    with pytest.raises(HoneError, match=name) as refused:
        check_ranges([*SPECS, *more], {name: (0, 1)})
    assert refused.value.slug == "recipe-invalid"
    assert "ids, x" in refused.value.why


@pytest.mark.parametrize(
    ("dtype", "ends", "wrong"),
    [
        ("int64", (0, 1e20), "1e+20"),
        ("int64", (0, 2.0**63), "9.22337e+18"),
        ("int8", (-129, 0), "-129"),
        ("uint8", (-1, 255), "-1"),
        ("int32", (0.4, 0.45), "0.4"),
        ("int32", (0, 2.5), "2.5"),
        ("float16", (0, 1e6), "1e+06"),
        ("float32", (-1e39, 0), "-1e+39"),
    ],
)
def test_an_end_that_its_type_cannot_hold_is_refused(dtype, ends, wrong):
    with pytest.raises(HoneError) as refused:
        check_ranges([make_spec(dtype)], {"x": ends})
    assert refused.value.slug == "recipe-invalid"
    assert refused.value.what.endswith(f": {wrong}.")
    assert dtype in refused.value.why


@pytest.mark.parametrize(
    ("dtype", "ends"),
    [
        ("float64", (-1e308, 1e308)),
        ("float32", (-3.4e38, 3.4e38)),
        ("float16", (-65504, 65504)),
        ("float32", (0.1, 0.3)),
        ("int64", (-(2.0**63), 2.0**62)),
        ("uint64", (0, 2.0**63)),
        ("int8", (-128, 127)),
        ("int16", (7, 7)),
    ],
)
def test_numbers_from_end_to_end_are_inside(dtype, ends):
    check_ranges([make_spec(dtype)], {"x": ends})
    (probe,) = confine([], {"x": np.zeros((50, 2), dtype)}, {"x": ends}, seed=0)
    made = probe.feeds["x"]
    assert (made.dtype, np.isfinite(made).all()) == (dtype, True)
    assert (made.min(), made.max()) == tuple(np.array(ends, dtype))
    assert ends[0] == ends[1] or len(np.unique(made)) > 50
