"""Rows cut to the shapes of the recipe: what is said where they are too short."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.comparing.cropping import crop
from kedro_hone.core.errors import HoneError


@pytest.mark.parametrize(("dim", "named"), [("length", True), ("width", False)])
def test_rows_that_are_too_short_say_which_option_makes_them_longer(dim, named):
    """Only rows of tokens have an option for it; others are made by the user."""
    with pytest.raises(HoneError, match=f"asks for {dim} = 9, and the data have 5") as caught:
        crop(np.zeros((2, 5)), ("batch", dim), {"batch": 1, dim: 9})
    assert caught.value.slug == "data-unreadable"
    assert ("program.options.length" in caught.value.hint) is named
