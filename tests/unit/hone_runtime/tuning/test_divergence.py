"""The distance between two models' outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hone_runtime.tuning.divergence import find_class_axes, measure_divergence
from hone_runtime.tuning.judge import Judge
from kedro_hone.programs import LIBRARY

LOGITS = np.random.default_rng(0).normal(size=(32, 5)).astype(np.float32)
MAP = np.random.default_rng(1).normal(size=(6, 4, 8, 9)).astype(np.float32)
"""Scores of four classes for each pixel: rows, classes, height, width."""


def test_equal_outputs_have_no_distance():
    for axes in ({}, {"y": 1}):
        assert measure_divergence({"y": LOGITS}, {"y": LOGITS}, axes) == pytest.approx(0, abs=1e-12)


def test_logits_are_compared_by_their_softmax():
    """A constant added to a row changes no probability."""
    assert measure_divergence({"y": LOGITS}, {"y": LOGITS + 3}, {"y": 1}) == pytest.approx(0, abs=1e-9)
    expected, made = np.array([[0.0, 0.0]]), np.array([[0.0, math.log(3)]])
    divergence = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert measure_divergence({"y": expected}, {"y": made}, {"y": 1}) == pytest.approx(divergence)


def test_probabilities_are_taken_as_they_are():
    expected, made = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])
    divergence = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert measure_divergence({"y": expected}, {"y": made}, {"y": 1}) == pytest.approx(divergence)


def test_of_a_segmentation_the_classes_are_compared_at_each_pixel():
    """What is added to all classes of a pixel changes none of them; the same along a row of pixels does."""
    axes, ramp = {"y": 1}, np.linspace(0, 8, 9, dtype=np.float32)
    assert measure_divergence({"y": MAP}, {"y": MAP + ramp}, axes) == pytest.approx(0, abs=1e-9)
    lifted = MAP.copy()
    lifted[:, 0] += 1  # of one class, at all pixels alike
    assert measure_divergence({"y": MAP}, {"y": lifted}, axes) > 0.05
    last = {"y": 3}
    assert measure_divergence({"y": MAP}, {"y": lifted}, last) == pytest.approx(0, abs=1e-9)


def test_of_an_embedding_all_numbers_count():
    """A shift of all numbers of a row is invisible in a softmax, and moves the row to other neighbours."""
    shift = np.linspace(-3, 3, 32, dtype=np.float32)[:, None]
    moved, axes = LOGITS + shift, find_class_axes({"y": LOGITS}, LOGITS)
    assert axes == {}
    assert measure_divergence({"y": LOGITS}, {"y": moved}, axes) == pytest.approx(
        float((shift**2).mean() / LOGITS.var())
    )


@pytest.mark.parametrize("made", [LOGITS, LOGITS * 1.05])
def test_scores_of_a_large_spread_are_compared_by_their_squared_error(made):
    scores = {"y": 100 * LOGITS}
    error = measure_divergence(scores, {"y": 100 * made}, {"y": 1})
    assert error == pytest.approx(float(((LOGITS - made) ** 2).mean() / LOGITS.var()))


def test_the_squared_error_is_over_the_variance():
    expected = np.array([[0.0], [2.0]])
    assert measure_divergence({"y": expected}, {"y": expected + 0.5}) == pytest.approx(0.25)


@pytest.mark.parametrize("axes", [{}, {"y": 1}])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_infinitely_far(bad, axes):
    assert measure_divergence({"y": LOGITS}, {"y": np.where(LOGITS > 1, bad, LOGITS)}, axes) == math.inf


def test_places_where_the_source_is_not_finite_are_ignored():
    expected = np.array([[0.0, -np.inf], [2.0, 1.0]])
    assert measure_divergence({"y": expected}, {"y": np.array([[0.0, 7.0], [2.0, 1.0]])}, {"y": 1}) == 0
    assert measure_divergence({"y": np.full(3, np.nan)}, {"y": np.ones(3)}) == 0


def test_of_whole_numbers_the_differing_share_counts_and_outputs_add_up():
    labels = {"y": LOGITS, "label": np.array([1, 2, 3, 4])}
    assert measure_divergence(labels, {**labels, "label": np.array([1, 2, 3, 0])}) == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize(
    ("array", "predictions", "axis"),
    [
        (LOGITS, LOGITS.argmax(1), 1),
        (MAP, MAP.argmax(1), 1),
        (MAP, MAP.argmax(3), 3),
        (MAP[..., 0], {"best": MAP[..., 0].argmax(2), "logits": MAP[..., 0]}, 2),
        (LOGITS, np.where(np.arange(32) == 3, -1, LOGITS.argmax(1)), 1),
        (LOGITS, LOGITS, None),
        (LOGITS, LOGITS.argmax(1).astype(np.float64), None),
        (LOGITS, LOGITS.argmin(1), None),
        (LOGITS, LOGITS.argmax(1)[:, None], None),
        (LOGITS[:, :1], np.zeros(32, np.int64), None),
        (LOGITS, "nothing", None),
        (np.arange(32), np.arange(32), None),
    ],
)
def test_the_classes_are_where_the_largest_score_is_predicted(array, predictions, axis):
    assert find_class_axes({"y": array}, predictions) == ({} if axis is None else {"y": axis})


SEGMENTATION = """
def decode(outputs, options): return outputs["y"].argmax(1)
def score(predictions, targets, options): return (predictions == targets["label"]).mean((1, 2))
def metric(predictions, targets, options): return float((predictions == targets["label"]).mean())
"""
OWN = {
    "segmentation": SEGMENTATION,
    "embedding": "def decode(outputs, options): return outputs['y']",
    "broken": "def decode(outputs, options): raise KeyError('label')",
}


@pytest.mark.parametrize(
    ("program", "outputs", "axes"),
    [
        ("image_classification", {"y": LOGITS}, {"y": 1}),
        ("tabular_classification", {"y": LOGITS}, {"y": 1}),
        ("text_classification", {"y": LOGITS}, {"y": 1}),
        ("tabular_regression", {"y": LOGITS}, {}),
        ("token_classification", {"y": MAP[..., 0]}, {"y": 2}),
        ("causal_language_modeling", {"y": MAP[..., 0]}, {"y": 2}),
        ("embedding", {"y": LOGITS}, {}),
        ("segmentation", {"y": MAP}, {"y": 1}),
        ("broken", {"y": LOGITS}, {}),
    ],
)
def test_a_programs_predictions_decide(tmp_path, program, outputs, axes):
    path = LIBRARY / program / "__init__.py"
    if program in OWN:
        path = tmp_path / f"{program}.py"
        path.write_text(f'METRIC, HIGHER_IS_BETTER = "own", True\n{OWN[program]}')
    np.savez(tmp_path / "targets.npz", target=np.zeros(32))
    targets = {"targets": tmp_path / "targets.npz", "outputs": ["y"]}
    row = {"path": str(path), "library": str(LIBRARY), "options": {}, **targets}
    assert Judge(row).find_class_axes(outputs) == axes
