"""Whether a converted model gives what its source gives, and what a fair question is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from hone_runtime.conversion.agreement import Part, Probe, compare

ROWS = 400
X = np.random.default_rng(0).normal(size=(ROWS, 3))


def add_up(feeds):
    return {"variable": feeds["X"].sum(axis=1, keepdims=True).astype(np.float32)}


def classify(feeds):
    scores = np.exp(feeds["X"])
    scores = (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)
    return {"label": scores.argmax(axis=1), "probabilities": scores}


def compare_all(source, graph, probes=(), *, has_steps=True, rows=range(ROWS), **how):
    return compare(source, graph, {"X": X}, lambda _: probes, rows=[*rows], has_steps=has_steps, **how)


def change(outputs, name, rows, by):
    made = {key: array.copy() for key, array in outputs.items()}
    made[name][rows] += by
    return made


def test_rounding_is_no_difference():
    def graph(feeds):
        return {"variable": add_up({"X": feeds["X"].astype(np.float32)})["variable"] * np.float32(1 + 1e-6)}

    found = compare_all(add_up, graph)
    assert (found.problem, found.agreeing) == (None, [*range(ROWS)])
    assert found.describe() == []


def test_a_difference_is_told_with_row_column_and_numbers():
    def graph(feeds):
        return change(classify(feeds), "probabilities", slice(7, 30), np.float32([0, 0, 0.25]))

    said = compare_all(classify, graph).problem
    assert said.startswith("probabilities differ from the source's: row ")
    assert "of the calibration data: probabilities[2] is " in said
    assert "by the source, and " in said
    assert "(23 of 400 rows are too far off)" in said


@pytest.mark.parametrize(("share", "count", "taken"), [(0.05, 20, True), (0.05, 21, False), (0.0, 1, False)])
@pytest.mark.parametrize("has_steps", [True, False])
def test_the_recipe_may_say_in_how_many_rows(share, count, taken, has_steps):
    def graph(feeds):
        return change(add_up(feeds), "variable", slice(count), 5)

    assert (compare_all(add_up, graph, share=share, has_steps=has_steps).problem is None) == taken


@pytest.mark.parametrize(("count", "taken"), [(4, True), (5, False)])
def test_one_row_in_a_hundred_may_be_apart(count, taken):
    found = compare_all(add_up, lambda feeds: change(add_up(feeds), "variable", slice(count), 5))
    assert (found.problem is None) == taken
    if taken:
        assert len(found.agreeing) == ROWS - count
        assert found.describe()[0].startswith("variable differs")


def test_of_a_source_without_steps_no_row_of_few_may_be_apart():
    def graph(feeds):
        return change(add_up(feeds), "variable", slice(1), 5)

    assert compare_all(add_up, graph, rows=range(50)).problem is None
    assert compare_all(add_up, graph, rows=range(50), has_steps=False).problem


def test_labels_are_compared_but_where_two_scores_are_the_same():
    def source(feeds):
        found = classify(feeds)
        found["probabilities"][:15] = 1 / 3
        return found

    def graph(feeds):
        found = source(feeds)
        return {**found, "label": np.where(np.arange(len(found["label"])) < 15, 2, found["label"])}

    scores = {"label": "probabilities"}
    assert compare_all(source, graph, scores=scores).problem is None
    assert compare_all(source, graph).problem.startswith("label differs from the source's")
    wrong = compare_all(classify, lambda feeds: change(classify(feeds), "label", slice(15), 1), scores=scores)
    assert wrong.problem.startswith("label differs from the source's")


def test_a_small_range_is_the_scale():
    def source(feeds):
        return {"variable": add_up(feeds)["variable"] / 1000}

    assert compare_all(source, lambda feeds: {"variable": source(feeds)["variable"] * 1.01}).problem
    assert compare_all(source, lambda feeds: {"variable": source(feeds)["variable"] * 1.0001}).problem is None


def test_columns_may_have_ranges_of_their_own():
    def source(feeds):
        return {"variable": np.hstack([feeds["X"][:, :1] * 1e6, feeds["X"][:, 1:2]])}

    def graph(feeds):
        return {"variable": source(feeds)["variable"] + [[0.0, 0.1]]}

    assert compare_all(source, graph).problem is None
    assert "variable[1]" in compare_all(source, graph, by_column=["variable"]).problem


def test_what_the_source_refuses_or_does_not_know_is_no_fair_question():
    def source(feeds):
        if (feeds["X"][:, 0] > 2).any():
            raise ValueError("too large")
        return {"variable": np.where(feeds["X"][:, :1] < -2, np.nan, feeds["X"][:, :1])}

    found = compare_all(source, lambda feeds: {"variable": np.maximum(feeds["X"][:, :1], -2)})
    assert found.problem is None
    assert 0 < len(found.agreeing) < ROWS


def test_a_source_that_answers_nothing_proves_nothing():
    def source(feeds):
        raise ValueError("no such column")

    assert "fails on every calibration row" in compare_all(source, add_up).problem


def test_the_graph_may_not_refuse_what_the_source_answers():
    def graph(feeds):
        raise ValueError("unknown\ncategory")

    said = compare_all(add_up, graph).problem
    assert said == ("the source answers row 0 of the calibration data, and the converted model fails: unknown category")


def test_other_shapes_and_missing_columns_are_differences():
    said = compare_all(classify, lambda feeds: {key: array[..., :2] for key, array in classify(feeds).items()}).problem
    assert "in the shape: (400,) by the source, and (2,) by the converted model" in said


def make_probe(value, *rows):
    feeds = np.repeat(X[:1], len(rows) or 8, axis=0)
    feeds[:, 1] = value
    return Probe("missing", {"X": feeds}, [*range(len(feeds))], [Part("with column 1 missing", slice(None))])


def test_a_probe_finds_what_the_data_do_not_show():
    def source(feeds):
        return {"variable": np.nan_to_num(feeds["X"]).sum(axis=1, keepdims=True)}

    def graph(feeds):
        return {"variable": np.nan_to_num(feeds["X"], nan=9).sum(axis=1, keepdims=True)}

    assert compare_all(source, graph).problem is None
    said = compare_all(source, graph, [make_probe(np.nan)]).problem
    assert "row 0 with column 1 missing: variable is" in said


def test_parts_of_a_probe_that_the_source_refuses_are_left_out():
    def source(feeds):
        if np.isnan(feeds["X"]).any():
            raise ValueError("NaN")
        return add_up(feeds)

    def graph(feeds):
        return change(add_up(feeds), "variable", feeds["X"][:, 1] == 7, 5)

    some, other = make_probe(np.nan).feeds["X"], make_probe(7).feeds["X"]
    parts = [Part("with NaN", slice(0, 8)), Part("with 7", slice(8, 16))]
    probe = Probe("mixed", {"X": np.concatenate([some, other])}, [*range(16)], parts)
    assert "with 7: variable is" in compare_all(source, graph, [probe]).problem


def test_single_rows_in_many_parts_are_counted_together():
    def graph(feeds):
        found = add_up(feeds)
        return found if len(found["variable"]) == ROWS else change(found, "variable", slice(0, None, 16), 5)

    parts = [Part(f"part {at}", slice(16 * at, 16 * at + 16)) for at in range(16)]
    probe = Probe("mixed", {"X": X[:256]}, [*range(256)], parts)
    assert "(16 of 256 rows are too far off)" in compare_all(add_up, graph, [probe]).problem


def test_an_output_without_a_row_for_each_row_is_compared_as_a_whole():
    def source(feeds):
        return {"mean": feeds["X"].mean(axis=0)}

    assert compare_all(source, source, [make_probe(0.0)]).problem is None
    assert "mean[0] is" in compare_all(source, lambda feeds: {"mean": source(feeds)["mean"] + [1, 0, 0]}).problem


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_rows_with_equal_values_that_are_not_finite_are_compared_in_the_others(value):
    """Logits of actions that are not allowed: each row has some, and the rest of it is not to be passed over."""

    def source(feeds):
        found = feeds["X"].astype(np.float32)
        found[:, 1] = value
        return {"logits": found}

    def graph(feeds):
        return change(source(feeds), "logits", slice(None), np.float32([0, 0, 0.5]))

    assert compare_all(source, source).problem is None
    assert "logits[2] is" in compare_all(source, graph).problem


def take_largest(feeds, *, last=False):
    """Return the two largest scores with their places; of equal ones the first or the last, as a library has it."""
    scores = feeds["X"].astype(np.float32)
    order = np.argsort(-scores[:, ::-1] if last else -scores, axis=1, kind="stable")[:, :2]
    places = 2 - order if last else order
    return {"places": places, "values": np.take_along_axis(scores, places, axis=1)}


def test_places_of_equal_scores_are_no_difference_where_all_rows_are_the_same():
    zeros = Probe("zero", {"X": np.zeros((4, 3))}, [*range(4)], [Part("of zeros", slice(None))], alike=True)

    def graph(feeds):
        return take_largest(feeds, last=True)

    assert compare_all(take_largest, graph, [zeros], has_steps=False).problem is None
    assert compare_all(take_largest, graph, [replace(zeros, alike=False)], has_steps=False).problem

    def wrong(feeds):
        return change(graph(feeds), "values", feeds["X"].sum(axis=1) == 0, 0.5)

    assert "values differ" in compare_all(take_largest, wrong, [zeros], has_steps=False).problem

    def overflow(feeds):
        return change(graph(feeds), "places", feeds["X"].sum(axis=1) == 0, -(2**31))

    assert "places differ" in compare_all(take_largest, overflow, [zeros], has_steps=False).problem


def saturate(feeds, *, sure=0.0):
    """Return labels by scores, and probabilities that are equal where the first number is above ``sure``."""
    scores, tied = feeds["X"], feeds["X"][:, :1] > sure
    shares = np.where(tied, np.float32(0.5), classify(feeds)["probabilities"])
    return {"label": scores.argmax(axis=1), "probabilities": shares, "scores": scores}


def take_first(feeds, *, sure=0.0, where=slice(None)):
    """Return what a graph makes of such probabilities: the first of equal ones."""
    due = saturate(feeds, sure=sure)
    labels = due["label"].copy()
    labels[where] = due["probabilities"].argmax(axis=1)[where]
    return {"label": labels, "probabilities": due["probabilities"]}


def test_no_label_is_excused_by_equal_probabilities_where_the_source_decides_by_scores_that_differ():
    told = compare_all(saturate, take_first, scores={"label": "scores"}).problem
    assert told.startswith("label differs")
    some = np.repeat([[9.0, 0.0, 50.0]], 16, axis=0)
    probe = Probe("above", {"X": some}, [*range(16)], [Part("with column 0 above", slice(None))])
    sure = partial(saturate, sure=5.0), partial(take_first, sure=5.0)
    assert compare_all(*sure, scores={"label": "scores"}).problem is None
    assert (
        "with column 0 above: label is 2 by the source"
        in compare_all(*sure, [probe], scores={"label": "scores"}).problem
    )


@pytest.mark.parametrize(("count", "taken"), [(3, True), (4, False)])
def test_of_a_probe_few_labels_may_be_other_ones_though_the_source_s_scores_tie(count, taken):
    def source(feeds):
        shares = classify(feeds)["probabilities"]
        tied = np.where(feeds["X"][:, :1] == 7, np.float32([0.4, 0.4, 0.2]), shares)
        return {"label": tied.argmax(axis=1), "probabilities": tied}

    def graph(feeds):
        return change(source(feeds), "label", np.flatnonzero(feeds["X"][:, 0] == 7)[:count], 1)

    rows = X[:20].copy()
    rows[:8, 0] = 7
    probe = Probe("next", {"X": rows}, [*range(20)], [Part("with column 0 set to 7", slice(None))])
    found = compare_all(source, graph, [probe], scores={"label": "probabilities"}, has_steps=False, share=0.0)
    assert (found.problem is None) == taken


def test_zeros_whose_probabilities_are_equal_excuse_no_label_that_scores_decide():
    def source(feeds):
        scores = np.tile([0.0, 1.0, 5.0], (len(feeds["X"]), 1))
        return {
            "label": scores.argmax(axis=1),
            "probabilities": np.zeros((len(scores), 3), np.float32),
            "scores": scores,
        }

    def graph(feeds):
        found = source(feeds)
        zeros = (feeds["X"] == 0).all(axis=1)
        return {"label": np.where(zeros, 0, found["label"]), "probabilities": found["probabilities"]}

    zeros = Probe("zero", {"X": np.zeros((4, 3))}, [*range(4)], [Part("of zeros", slice(None))], alike=True)
    assert "of zeros: label is 2" in compare_all(source, graph, [zeros], scores={"label": "scores"}).problem
