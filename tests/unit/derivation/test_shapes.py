"""The shapes that are derived from a model's free dimensions and the sizes of its data."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.derivation.request import Request
from kedro_hone.derivation.shapes import choose_shapes, describe_shapes


def make_source(*shapes, names=("x", "y"), **metadata):
    named = zip(names, shapes, strict=False)
    inputs = tuple(TensorSpec(name=name, dtype="float32", shape=shape) for name, shape in named)
    return Artifact(format="onnx", digest="sha256:0", inputs=inputs, outputs=inputs, metadata=metadata)


def choose(source, feeds=None, *asked):
    return choose_shapes(Request(source="m", shapes=asked), source, feeds)[0]


def test_a_free_number_of_rows_is_one_and_many():
    assert choose(make_source(("batch", 4))) == {"batch1": {"batch": 1}, "batch32": {"batch": 32}}


def test_a_fixed_number_of_rows_is_the_only_one():
    assert choose(make_source((8, 4))) == {"batch8": {"batch": 8}}


def test_what_was_asked_for_comes_first():
    asked = ({"batch": 1}, {"batch": 64, "length": 128})
    assert choose(make_source(("batch", "length")), None, *asked) == {
        "batch1": {"batch": 1},
        "batch64-length128": {"batch": 64, "length": 128},
    }


def test_texts_are_measured_at_their_median_and_95th_percentile():
    mask = np.zeros((100, 40), np.int64)
    for row in range(100):
        mask[row, : 5 if row < 90 else 33] = 1
    source = make_source(("batch", "length"), names=("attention_mask",), transformers={"task": "fill-mask"})
    assert choose(source, {"attention_mask": mask}) == {
        "batch1-length8": {"batch": 1, "length": 8},
        "batch32-length40": {"batch": 32, "length": 40},
    }


def test_a_length_is_at_most_what_the_model_has_positions_for():
    noted = {"task": "fill-mask", "limits": {"length": 36}}
    source = make_source(("batch", "length"), names=("attention_mask",), transformers=noted)
    shapes = choose(source, {"attention_mask": np.ones((10, 36), np.int64)})
    assert {shape["length"] for shape in shapes.values()} == {36}


def test_other_free_dimensions_have_the_size_of_the_data():
    source = make_source(("batch", "height", "width", 3))
    shapes = choose(source, {"x": np.zeros((5, 20, 30, 3))})
    assert shapes["batch1-height20-width30"] == {"batch": 1, "height": 20, "width": 30}


def test_a_dimension_with_two_sizes_has_to_be_named():
    source = make_source(("batch", "n"), ("batch", "n"))
    with pytest.raises(HoneError, match="dimension 'n' cannot be derived") as raised:
        choose(source, {"x": np.zeros((5, 2)), "y": np.zeros((5, 3))})
    assert "--shape batch=1,n=3" in raised.value.hint


def test_shapes_in_words():
    assert describe_shapes({"a": {"batch": 1}, "b": {"batch": 32}}) == "batch 1 and batch 32"
    assert describe_shapes({"a": {"batch": 1, "length": 8}}) == "batch 1, length 8"
