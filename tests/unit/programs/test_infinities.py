"""Scores of ``-inf`` are those of classes that are excluded; what chooses nothing is never right."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.programs import load_program

INF, NAN = np.inf, np.nan
SCORES = [[1, -INF, 3], [-INF, -INF, 0], [-INF, -INF, -INF], [1, INF, 0], [NAN, 1, 0], [-INF, NAN, 0]]
BEST = [2, 2, -1, -1, -1, -1]


@pytest.mark.parametrize("name", ["image-classification", "tabular-classification", "text-classification"])
def test_the_class_of_a_row(name):
    program = load_program(name)
    options = {**program.OPTIONS, "output": None}

    assert program.decode({"logits": np.array(SCORES)}, options).tolist() == BEST


@pytest.mark.parametrize("name", ["token-classification", "speech-recognition", "sequence-to-sequence"])
def test_the_best_at_each_place(name):
    program = load_program(name)
    options = {**program.OPTIONS, "output": None}

    assert program.decode({"logits": np.array([SCORES])}, options).tolist() == [BEST]
