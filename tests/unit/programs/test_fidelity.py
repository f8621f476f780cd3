"""Fidelity: how an output is compared by default, and what each comparison says of a known error."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone import programs


@pytest.fixture(scope="module")
def fidelity(tmp_path_factory):
    return programs.load_program("fidelity", project=tmp_path_factory.mktemp("none"))


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "chosen"),
    [
        ("logits", "float32", (9, 10), "argmax"),
        ("head.out_probabilities", "float64", (9, 2), "argmax"),
        ("output_logits:0", "float32", (9, 12, 50), "argmax"),  # a language model's, for each position
        ("logits", "float32", (9, 21, 32, 32), "argmax"),  # an image's, for each pixel
        ("logits", "float32", (9, 1, 32, 32), "cosine"),  # one class of each pixel is nothing to choose from
        ("logits", "float32", (9, 1), "l2"),
        ("price", "float32", (9,), "l2"),
        ("embedding", "float32", (9, 384), "cosine"),
        ("last_hidden_state", "float16", (9, 12, 384), "cosine"),
        ("output_0", "float32", (9, 10), "cosine"),
        ("improbable", "float32", (9, 10), "cosine"),  # a word, not a part of one
        ("label", "int64", (9,), "equal"),
        ("logits", "int8", (9, 10), "equal"),
        ("label", "<U6", (9,), "equal"),
        ("flag", "bool", (9, 4), "equal"),
    ],
)
def test_the_default_follows_from_the_interface(fidelity, name, dtype, shape, chosen):
    assert fidelity.choose_comparison(name, dtype, shape) == chosen


def test_the_option_rules_over_the_default(fidelity):
    target = {"logits": np.eye(3)}
    for compare, name in (("cosine", "cosine_similarity"), ("l2", "l2_similarity"), ("argmax", "argmax_agreement")):
        assert fidelity.describe_metric(target, {"compare": compare})["name"] == name
    assert fidelity.describe_metric({"label": np.array(["a"])}, {"compare": "l2"})["name"] == "agreement"


@pytest.mark.parametrize(
    ("targets", "name", "kind"),
    [
        ({"logits": np.zeros((4, 3))}, "argmax_agreement", "proportion"),
        ({"logits": np.zeros((4, 7, 3))}, "argmax_agreement", "mean"),
        ({"label": np.zeros(4, int)}, "agreement", "proportion"),
        ({"tokens": np.zeros((4, 7), int)}, "agreement", "mean"),
        ({"x": np.zeros((4, 7))}, "cosine_similarity", "mean"),
        ({"x": np.zeros((4, 7)), "label": np.zeros(4, int)}, "similarity", "mean"),
    ],
)
def test_the_kind_of_the_metric(fidelity, targets, name, kind):
    assert fidelity.describe_metric(targets, fidelity.OPTIONS) == {"name": name, "kind": kind}


def score(fidelity, given, wanted, compare, name="x"):
    return fidelity.score({name: np.asarray(given)}, {name: np.asarray(wanted)}, {"compare": compare})


def test_cosine_is_the_cosine_of_rows_of_equal_length(fidelity):
    random = np.random.default_rng(0)
    wanted, given = random.normal(size=(2, 30, 8))
    given += 2 * wanted
    given *= np.linalg.norm(wanted, axis=1, keepdims=True) / np.linalg.norm(given, axis=1, keepdims=True)
    cosine = (given * wanted).sum(axis=1) / (np.linalg.norm(wanted, axis=1) * np.linalg.norm(given, axis=1))
    np.testing.assert_allclose(score(fidelity, given, wanted, "cosine"), cosine)


def test_cosine_sees_a_candidate_of_another_scale(fidelity):
    wanted = np.ones((1, 4))
    for factor, similarity in ((1, 1.0), (1.02, 0.9998), (2, 0.8), (0.5, 0.8), (0, 0.0), (-1, 0.0), (np.inf, 0.0)):
        assert score(fidelity, wanted * factor, wanted, "cosine") == pytest.approx([similarity], abs=1e-5)
    assert score(fidelity, 0 * wanted, 0 * wanted, "cosine") == [1.0]


def test_l2_is_relative_to_the_row_and_to_the_usual_row_where_it_is_small(fidelity):
    wanted = np.array([[3.0, 4.0], [0.0, 0.0], [30.0, 40.0]])
    given = wanted + np.array([[0.3, 0.4], [0.3, 0.4], [3.0, 4.0]])
    usual = np.sqrt((25 + 0 + 2500) / 3)
    np.testing.assert_allclose(score(fidelity, given, wanted, "l2"), [1 - 0.5 / usual, 1 - 0.5 / usual, 0.9])
    assert score(fidelity, [[np.nan, 4.0]], [[3.0, 4.0]], "l2") == [0.0]
    assert score(fidelity, [[9.0, 12.0]], [[3.0, 4.0]], "l2") == [0.0]


def test_argmax_is_the_share_of_positions(fidelity):
    wanted = np.eye(4)[None].repeat(2, axis=0)  # two rows of four positions
    given = wanted.copy()
    given[0, 1] = [1, 0, 0, 0]
    given[1, :2] = [0, 0, np.nan, 1]
    np.testing.assert_allclose(score(fidelity, given, wanted, "argmax"), [0.75, 0.5])
    pixels = np.moveaxis(given.reshape(2, 2, 2, 4), -1, 1), np.moveaxis(wanted.reshape(2, 2, 2, 4), -1, 1)
    np.testing.assert_allclose(score(fidelity, *pixels, "argmax"), [0.75, 0.5])


def test_the_least_similar_output_of_a_row_counts(fidelity):
    wanted = {"embedding": np.ones((3, 2)), "label": np.array([0, 1, 2])}
    given = {"embedding": np.array([[1, 1], [1, 0], [1, 1]]), "label": np.array([0, 1, 0])}
    assert fidelity.score(given, wanted, fidelity.OPTIONS).tolist() == pytest.approx([1.0, 2 / 3, 0.0])


def test_an_unknown_comparison_is_refused_before_anything_is_built(fidelity):
    job = {"input": {"inputs": [{"name": "x"}]}, "program": {"options": {"compare": "values"}}}
    with pytest.raises(ValueError, match="cosine, l2, argmax") as caught:
        fidelity.prepare({"x": np.zeros(3)}, job)
    assert caught.value.slug == "recipe-invalid"
