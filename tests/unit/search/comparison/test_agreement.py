"""Outputs that no metric reads, rows that a conversion changed, and what is not finite."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.outcome import FailureClass
from kedro_hone.search.comparison.agreement import Fault, compare_arrays, compare_outputs, explain_rows
from kedro_hone.search.comparison.disagreement import find_disagreement

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.normal(size=(100, 5)).astype(np.float32)
CONVERTED = {"scored": {"y"}, "exact": 0.0, "discrete": 0.01, "unscored": 0.1}
TREES = {**CONVERTED, "exact": 0.01}
LOSSY = {**CONVERTED, "exact": None}


def judge(want, got, allowed, name="y"):
    return find_disagreement([compare_arrays(name, want, got)], **allowed)


def test_rounding_is_no_difference():
    assert judge(LOGITS, LOGITS * (1 + 1e-5), CONVERTED) == ""


def test_one_row_of_a_conversion_is_too_many_and_is_named():
    got = LOGITS.copy()
    got[17, 3] += 0.5
    said = judge(LOGITS, got, CONVERTED)
    assert "in 1 of 100 rows: row 17, number 3, is" in said
    assert "no row may differ" in said
    assert judge(LOGITS, got, LOSSY) == ""


def test_thresholds_of_trees_may_flip_one_row_in_a_hundred():
    one, two = LOGITS.copy(), LOGITS.copy()
    one[0] += 1
    two[:2] += 1
    assert judge(LOGITS, one, TREES) == ""
    assert "in 2 of 100 rows" in judge(LOGITS, two, TREES)
    assert "1.00% of the rows" in judge(LOGITS, two, TREES)


def test_an_error_counts_by_the_scale_of_its_column():
    """A share of 0 to 1 next to a price of thousands: 0.2 is much of the one and nothing of the other."""
    want = np.stack([RANDOM.uniform(5e3, 9e3, 50), RANDOM.uniform(0, 1, 50)], axis=1)
    share, price = want.copy(), want.copy()
    share[3, 1] += 0.2
    price[3, 0] += 0.2
    assert "row 3, number 1," in judge(want, share, CONVERTED)
    assert judge(want, price, CONVERTED) == ""


def test_what_no_metric_reads_is_judged_by_its_values():
    """The labels are the same, and each probability is another one."""
    want = RANDOM.dirichlet(np.ones(3), 80)
    got = want**3 / (want**3).sum(axis=1, keepdims=True) * 0.3 + 0.7 / 3
    assert (want.argmax(axis=1) == got.argmax(axis=1)).all()
    assert judge(want, got, LOSSY) == ""
    said = judge(want, got, LOSSY, name="probabilities")
    assert said.startswith("probabilities differ from the source's")
    assert "No metric reads them; they are as far as 0." in said


def test_labels_that_no_metric_reads_are_the_same_or_not():
    want = RANDOM.integers(0, 3, 50)
    got = want.copy()
    got[:4] = (got[:4] + 1) % 3
    assert judge(want, got, LOSSY, name="label") == ""
    got[:9] = (want[:9] + 1) % 3
    assert "label differs from the source's in 9 of 50 rows" in judge(want, got, LOSSY, name="label")
    text = np.array(["a", "b"] * 25)
    assert "in 25 of 50 rows: row 1 is 'a'" in judge(text, np.array(["a"] * 50), LOSSY, name="label")


def test_whole_numbers_beyond_floating_point_are_compared_as_such():
    want = np.array([2**60, 2**60 + 2], np.int64)
    assert compare_arrays("id", want, want + 1).rows == 2


def test_a_lost_part_drops_whatever_the_metric_says():
    got = LOGITS.copy()
    got[:, 2] = 0.0
    assert judge(LOGITS, got, LOSSY) == "y[:, 2] varies in the source and is constant in the candidate"


def write(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.fixture
def compare(tmp_path):
    def compare(want, got, feeds=None, shape=("batch", 3)):
        spec = TensorSpec(name="y", dtype="float32", shape=shape)
        paths = [write(tmp_path / f"{name}.npz", y=array) for name, array in (("got", got), ("want", want))]
        rows = write(tmp_path / "rows.npz", **(feeds or {"x": np.zeros(2)}))
        return compare_outputs(paths[0], reference=paths[1], feeds=rows, outputs=[spec])

    return compare


def test_equal_infinities_are_equal(compare):
    want = np.array([[1.0, -np.inf, 2.0], [np.nan, 0.5, np.inf]], np.float32)
    (found,) = compare(want, want.copy())
    assert (found.rows, found.largest, found.distance) == (0, 0.0, 0.0)


@pytest.mark.parametrize(("place", "value"), [((0, 1), np.inf), ((0, 0), np.nan), ((1, 0), 0.0)])
def test_other_values_that_are_not_finite_are_a_fault_with_their_place(compare, place, value):
    want = np.array([[1.0, -np.inf, 2.0], [np.nan, 0.5, np.inf]], np.float32)
    got = want.copy()
    got[place] = value
    found = compare(want, got)
    assert isinstance(found, Fault)
    assert found.failure is FailureClass.NUMERICS
    assert f"in 1 of 2 rows; first at {list(place)}" in found.reason


def test_text_that_is_no_unicode_is_a_fault(compare):
    want, wild = np.array(["a", "b"]), np.array([0x00FFFFFF, 97], np.uint32).view("<U1")
    found = compare(want, wild)
    assert isinstance(found, Fault)
    assert found.failure is FailureClass.BAD_OUTPUT


def test_padding_is_not_compared(compare):
    want = RANDOM.normal(size=(2, 4, 3)).astype(np.float32)
    got, mask = want.copy(), np.array([[1, 1, 0, 0], [1, 1, 1, 1]])
    got[0, 2:] = np.nan
    (found,) = compare(want, got, {"attention_mask": mask}, shape=("batch", "length", 3))
    assert found.rows == 0
    got[0, 0] += 1
    (found,) = compare(want, got, {"attention_mask": mask}, shape=("batch", "length", 3))
    assert "in 1 of 2 rows: row 0" in explain_rows(found)


def test_masked_scores_hide_no_other_error():
    want = LOGITS.copy()
    want[:, 1] = -1e9
    got = want.copy()
    got[9, 3] += 0.5
    assert "in 1 of 100 rows: row 9" in judge(want, got, CONVERTED)
    assert judge(want, want.copy(), CONVERTED) == ""


def test_numbers_of_few_bits_are_no_difference():
    """Denormal numbers are rounded, or flushed to 0, by whoever adds them in another order."""
    want = np.float32(RANDOM.normal(size=(7, 4)) * 7e-44)
    assert judge(want, np.zeros_like(want), CONVERTED) == ""


def test_outputs_without_rows_or_numbers_agree():
    for shape in ((0, 3), (5, 0)):
        assert judge(np.zeros(shape), np.zeros(shape), CONVERTED) == ""


def test_rounding_is_no_distance_whatever_the_recipe_asks():
    assert judge(LOGITS, LOGITS * (1 + 1e-7), {**LOSSY, "unscored": 0.0}, name="other") == ""


def test_a_share_next_to_a_time_is_compared_by_its_own_scale():
    want = np.stack([1.7e9 + RANDOM.uniform(0, 1e6, 60), RANDOM.uniform(0, 1, 60)], axis=1)
    got = want.copy()
    got[:, 1] = RANDOM.uniform(0, 1, 60)
    assert "number 1," in judge(want, got, CONVERTED)
    got[:, 1] = 0
    assert "varies in the source and is constant" in judge(want, got, LOSSY)


def test_pixels_may_be_rounded_by_one_and_classes_may_not():
    want = RANDOM.integers(0, 256, (40, 9)).astype(np.uint8)
    near = np.where(want > 0, want - 1, want)
    assert judge(want, near, CONVERTED) == ""
    assert "in 40 of 40 rows" in judge(want, np.where(want > 1, want - 2, want), CONVERTED)
    classes = RANDOM.integers(0, 10, 40)
    assert judge(classes, classes + 1, CONVERTED) != ""


def test_the_largest_numbers_of_a_type_are_not_constant():
    large = np.finfo(np.float32).max
    want = np.float32(RANDOM.choice([-large, large], (40, 3)))
    assert compare_arrays("y", want, want.copy()).constant == ""


def test_a_row_near_zero_is_compared_with_usual_ones():
    want, got = np.float32([[-0.017, 0.01]]), np.zeros((1, 2), np.float32)
    assert compare_arrays("y", want, got).distance == pytest.approx(1.0)
    assert compare_arrays("y", want, got, length=2.0).distance == pytest.approx(0.01, rel=0.1)


def test_a_share_next_to_incomes_of_all_sizes_is_compared_by_its_own_scale():
    """These are no number of a mask, and their rounding is none of the share's."""
    want = np.stack([10 ** RANDOM.uniform(2, 7, 60), RANDOM.uniform(0, 1, 60)], axis=1)
    got = want.copy()
    got[:, 1] = 1 - want[:, 1]
    assert "number 1," in judge(want, got, CONVERTED)


@pytest.mark.parametrize(("error", "rows"), [(1.4e-7, 0), (2e-6, 60)])
def test_a_sigmoid_next_to_boxes_has_the_rounding_of_fp32(error, rows):
    want = np.stack([np.linspace(0, 320, 60), np.geomspace(1e-6, 1.2e-4, 60)], axis=1).astype(np.float32)
    got = want.copy()
    got[:, 1] += np.float32(error)

    assert compare_arrays("y", want, got).rows == rows


def test_the_example_is_the_number_that_is_off_by_most_of_its_unit():
    want = np.stack([np.linspace(0, 320, 60), np.linspace(0, 0.1, 60)], axis=1).astype(np.float32)
    got = want.copy()
    got[7, 0] += 1e-2
    got[9, 1] += 3e-3

    assert compare_arrays("y", want, got).example.startswith("row 9, number 1, is 0.0182542")


def test_the_rounding_of_fp32_is_allowed_where_a_probe_gives_less_than_usual():
    want = np.tile(np.geomspace(1e-6, 1e-4, 360, dtype=np.float32), (7, 1))
    got = want + np.float32(1.1e-7)

    assert compare_arrays("y", want, got, length=0.05 * 360**0.5).rows == 0
    assert compare_arrays("y", want, got).rows == 7
    assert compare_arrays("y", want, want * 2, length=0.05 * 360**0.5).rows == 7


@pytest.mark.parametrize("value", [0.0, 1e-42])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_differs_from_zeros_is_so_far_as_it_is_large(value, kind):
    """A network whose last rectifier is never open, or padding that is answered by zeros: they have no scale."""
    want = np.full((6, 4), value, kind)
    found = compare_arrays("y", want, want + kind(0.5))
    assert found.largest == pytest.approx(0.5)
    assert found.distance == found.usual == pytest.approx(1.0)  # the length of four numbers of 0.5
    assert found.rows == 6
    assert compare_arrays("y", want, want + kind(1e-9)).rows == 0


def test_a_probe_that_is_answered_by_zeros_has_the_scale_of_usual_rows():
    want = np.zeros((2, 4), np.float32)
    found = compare_arrays("y", want, want + np.float32(0.5), length=20.0)
    assert (found.distance, found.rows) == (pytest.approx(0.05), 2)


def test_the_channel_that_is_the_least_like_the_source_s_is_named():
    want = RANDOM.normal(size=(40, 3, 9)).astype(np.float32)
    got = want * np.float32(1.02)
    got[:, 1] += 1
    assert compare_arrays("boxes", want, got).furthest == "boxes[:, 1]"
    assert compare_arrays("score", want[:, 0, 0], got[:, 1, 0]).furthest == "score"
    assert compare_arrays("boxes", want, want).furthest == "boxes"


def test_the_row_that_is_shown_is_of_the_channel_that_is_named():
    """A box is 40 pixels off; the scores are of another image."""
    want = np.concatenate([RANDOM.uniform(0, 320, (30, 4, 9)), RANDOM.uniform(0, 1, (30, 2, 9))], axis=1)
    got = want.copy()
    got[7, 0, 3] += 40
    got[:, 5] = 1 - got[:, 5]
    found = compare_arrays("output0", want, got)
    assert found.furthest == "output0[:, 5]"
    number = int(found.example.split("number ")[1].split(",")[0])
    assert 45 <= number < 54
    assert float(found.example.rsplit(" ", 1)[1]) <= 1


@pytest.mark.parametrize(("levels", "said"), [(4, "of their spread over the rows"), (400, "")])
def test_an_offset_hides_no_error_of_what_no_label_judges(levels, said):
    """Days since 1970: 20,545 and 50 more or less, of which int4 leaves four values."""
    want = RANDOM.normal(20545, 50, size=(300, 1)).astype(np.float32)
    step = np.ptp(want) / levels
    got = np.round(want / step) * step
    quantized = {**LOSSY, "unscored": 0.1}

    assert said in judge(want, got, quantized, name="day")
    assert bool(judge(want, got, quantized, name="day")) is bool(said)
    assert judge(want, got, quantized, name="y") == "", "labels judge this one"
    assert bool(judge(want, got, {**quantized, "labelled": False}, name="y")) is bool(said)


def test_rows_that_are_all_the_same_have_no_spread():
    want = np.full((50, 4), 7.0, np.float32)

    assert compare_arrays("y", want, want + np.float32(0.02)).lost == 0
    assert compare_arrays("y", want[:5] + RANDOM.normal(size=(5, 4)), want[:5]).lost == 0


def test_numbers_with_the_rounding_of_larger_ones_have_no_scale_of_their_own():
    want = np.stack([np.linspace(1e4, 4e4, 60), RANDOM.normal(size=60)], axis=1).astype(np.float32)
    got = want.copy()
    got[:, 1] += 4e-3 * RANDOM.normal(size=60).astype(np.float32)

    assert compare_arrays("y", want, got).rows > 10
    assert compare_arrays("y", want, got, noise=np.array([False, True])).rows == 0
    assert compare_arrays("y", want, got, noise=np.array([True, False])).rows > 10
