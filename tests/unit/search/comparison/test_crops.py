"""Rows cut to the shapes of the recipe: what is said where they are too short."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.search.comparison.crops import ODD_BATCH, crop, find_odd_sizes, has_fixed_batch


@pytest.mark.parametrize(("dim", "named"), [("length", True), ("width", False)])
def test_rows_that_are_too_short_say_which_option_makes_them_longer(dim, named):
    """Only rows of tokens have an option for it; others are made by the user."""
    with pytest.raises(HoneError, match=f"has {dim} = 9, and the data have 5") as caught:
        crop(np.zeros((2, 5)), ("batch", dim), {"batch": 1, dim: 9})
    assert caught.value.slug == "data-unreadable"
    assert ("program.options.length" in caught.value.hint) is named


@pytest.mark.parametrize(("first", "odd"), [("batch", ODD_BATCH), (1, 1), (4, 4)])
def test_the_odd_batch_of_a_source_of_a_fixed_batch_is_that(first, odd):
    spec = TensorSpec(name="ids", dtype="int64", shape=(first, "length"))
    source = Artifact(format="onnx", digest="sha256:0", inputs=(spec,), outputs=())
    assert has_fixed_batch(source) is (first != "batch")
    assert find_odd_sizes(source, {"ids": np.zeros((8, 30))}) == {"batch": odd, "length": 19}
