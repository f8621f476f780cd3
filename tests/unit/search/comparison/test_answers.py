"""A row for which the source gives several answers excuses a candidate only as far as these are apart."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.search.comparison.agreement import compare_outputs
from kedro_hone.search.comparison.answers import find_accepted, list_varying, replace_rows

WANT = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
OTHER = WANT[7] + 0.5


def accept(got, answers=None, want=WANT):
    return find_accepted(want, got, answers or {7: [OTHER]}, rounding=1e-3)


def change(row, value):
    got = WANT.copy()
    got[row] = value
    return got


@pytest.mark.parametrize("value", [OTHER, WANT[7], OTHER + 1e-5, WANT[7] + 0.25])
def test_what_is_near_one_of_the_answers_is_accepted(value):
    places, largest = accept(change(7, value))

    assert places == [7]
    assert largest == pytest.approx(np.abs(value - WANT[7]).max() / np.abs(WANT).max(), abs=1e-6)


@pytest.mark.parametrize("value", [OTHER + 1e6, OTHER - 1e6, OTHER + 4, WANT[7] - 4, WANT[7] * np.nan])
def test_what_is_far_from_all_is_not(value):
    assert accept(change(7, value)) == ([], 0.0)


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_number_in_which_the_answers_agree_has_no_room(place):
    other = WANT[7] + np.array([2, 0, 0, 0], np.float32)
    value = other + np.eye(4, dtype=np.float32)[place]

    assert accept(change(7, value), {7: [other]}) == ([], 0.0)
    assert accept(change(7, other), {7: [other]})[0] == [7]


def test_a_row_has_to_be_near_one_answer_and_is_not_put_together_from_several():
    first, second = WANT[7] + np.array([4, 0, 0, 0], np.float32), WANT[7] + np.array([0, 4, 0, 0], np.float32)

    assert accept(change(7, WANT[7] + np.array([10, 10, 0, 0], np.float32)), {7: [first, second]}) == ([], 0.0)
    assert accept(change(7, second), {7: [first, second]})[0] == [7]


@pytest.mark.parametrize("kind", [int, str])
def test_classes_or_texts_of_several_answers_are_no_answer(kind):
    want = np.array([[1, 2, 3], [4, 5, 6]]).astype(kind)
    sides = [np.array(side).astype(kind) for side in ([7, 8, 6], [4, 8, 9])]

    for row, expected in (([7, 5, 9], []), ([4, 5, 9], []), ([7, 8, 6], [1]), ([4, 8, 9], [1]), ([4, 5, 6], [1])):
        got = np.array([[1, 2, 3], row]).astype(kind)
        assert accept(got, {1: sides}, want=want) == (expected, 0.0)


def test_what_was_excused_is_told_over_the_scale_without_masks():
    want = np.concatenate([WANT, np.full((50, 1), -1e9, np.float32)], axis=1)
    other = want[7] + np.array([0.5, 0.5, 0.5, 0.5, 0], np.float32)
    got = want.copy()
    got[7] = other

    places, largest = accept(got, {7: [other]}, want=want)

    assert places == [7]
    assert largest == pytest.approx(0.5 / np.abs(WANT).max(), rel=1e-5)


def test_an_answer_that_is_not_finite_allows_no_number():
    assert accept(change(7, OTHER + 1e6), {7: [WANT[7] * np.inf]}) == ([], 0.0)


@pytest.mark.parametrize(("labels", "other", "wrong"), [(np.arange(5), 4, 2), (np.array(list("abcde")), "long", "c")])
def test_a_class_or_a_text_has_to_be_one_of_the_answers(labels, other, wrong):
    got = labels.astype(object)
    for value, expected in ((other, [1]), (labels[1], [1]), (wrong, [])):
        got[1] = value
        found = got.astype(labels.dtype if labels.dtype.kind != "U" else str)
        assert accept(found, {1: [np.asarray(other)]}, want=labels) == (expected, 0.0)


@pytest.mark.parametrize("wrong", ["y", "z"])
def test_only_the_output_that_is_unsteady_is_excused(tmp_path, wrong):
    source = {"y": WANT, "z": WANT + 1}
    got = {name: change(7, array[7] + 0.5) if name == wrong else array for name, array in source.items()}
    for name, arrays in (("got", got), ("want", source)):
        np.savez(tmp_path / f"{name}.npz", **arrays)
    paths = {"reference": tmp_path / "want.npz", "feeds": tmp_path / "want.npz"}

    found = compare_outputs(tmp_path / "got.npz", **paths, outputs=(), answers={"y": {7: [OTHER]}})

    assert [one.rows > 0 for one in found if one.output == wrong] == [wrong == "z"]
    assert {one.output: one.excused > 0 for one in found} == {"y": wrong == "y", "z": False}


def test_what_has_two_sides_is_a_step_and_what_varies_is_not():
    side, spread = WANT[3] + 0.1, [WANT[3] + size for size in (0.1, 0.2, 0.3)]

    assert list_varying(WANT, {3: [side, WANT[3], side]}, bound=1e-3) == []
    assert list_varying(WANT, {3: [side, WANT[3] + 1e-6, side + 1e-6]}, bound=1e-3) == []
    assert list_varying(WANT, {3: spread}, bound=1e-3) == [3]
    one = [WANT[3] + np.eye(4)[0] * size for size in (0.1, 0.2, 0.3)]
    assert list_varying(WANT, {3: one, 4: [WANT[4]] * 3}, bound=1e-3) == [3]


def test_the_number_of_another_class_is_another_class_however_many_there_are():
    want = np.arange(100, dtype=np.int64)
    answers = {7: [np.int64(50)]}
    assert find_accepted(want, replace_rows(want, {7: np.int64(50)}), answers, rounding=0.0)[0] == [7]
    assert find_accepted(want, replace_rows(want, {7: np.int64(51)}), answers, rounding=0.0)[0] == []
