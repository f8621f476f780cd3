"""Sources of a fixed batch: said at the pull, and shapes of another batch are refused before anything is built."""

from __future__ import annotations

import logging

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.sources.batches import check_batch


def make(form, *shapes):
    inputs = tuple(TensorSpec(name=f"x{at}", dtype="float32", shape=shape) for at, shape in enumerate(shapes))
    return Artifact(format=form, digest="sha256:0", inputs=inputs, outputs=())


def ask(**batches):
    return read_recipe({"model": {"uri": "m"}, "shapes": {name: {"batch": size} for name, size in batches.items()}})


@pytest.mark.parametrize(
    ("form", "batch", "way"),
    [("pytorch", 1, "input_example of two rows"), ("onnx", 4, "first dimension"), ("keras", 3, "again")],
)
def test_a_fixed_batch_is_said_and_other_shapes_are_refused(caplog, form, batch, way):
    source = make(form, (batch, 8), (batch, 3))
    with caplog.at_level(logging.WARNING):
        check_batch(source, ask(one=batch))
    (said,) = caplog.messages
    assert f"takes {batch} row" in said
    assert way in said
    with pytest.raises(HoneError, match=f"'other' has a batch of {batch + 1}") as caught:
        check_batch(source, ask(one=batch, other=batch + 1))
    assert caught.value.slug == "recipe-invalid"
    assert f"({batch}, 8)" in caught.value.why
    assert way in caught.value.hint
    assert f"{{batch{batch}: {{batch: {batch}}}}}" in caught.value.hint


def test_nothing_is_said_of_a_free_batch(caplog):
    check_batch(make("onnx", ("batch", 8), ("batch", 1)), ask(one=1, many=64))
    assert not caplog.messages


def test_the_input_that_fixes_it_is_named(caplog):
    source = make("onnx", (2, "sequence", 4), (1, 1, 128), ("sequence", 576))
    with caplog.at_level(logging.WARNING):
        check_batch(source, ask(one=1))
    assert "its input 'x1' is fixed to (1, 1, 128)" in caplog.messages[0]
    with pytest.raises(HoneError, match="'many' has a batch of 64"):
        check_batch(source, ask(one=1, many=64))
