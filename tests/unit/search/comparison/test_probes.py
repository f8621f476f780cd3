"""Probes: what they hold for each kind of input, and which of them a source takes."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.values.artifact import TensorSpec
from kedro_hone.search.comparison.probes import ROWS, is_mask, list_patterns, make_probes

RANDOM = np.random.default_rng(0)


def make(*inputs, limits=None):
    """Return the probes by name for inputs: each a name, an array, and the names of its dimensions."""
    specs = [
        TensorSpec(name=name, dtype="str" if a.dtype.kind == "U" else a.dtype.name, shape=d) for name, a, d in inputs
    ]
    base = {name: array[:ROWS] for name, array, _ in inputs}
    arrays = zip(specs, inputs, strict=True)
    masks = {spec.name: list_patterns(array) for spec, (_, array, _) in arrays if is_mask(spec, array)}
    probes = make_probes(specs, base, masks=masks, limits=limits or {}, seed=0)
    assert len({probe.name for probe in probes}) == len(probes)
    return {probe.name: probe for probe in probes}


IDS = ("input_ids", RANDOM.integers(5, 90, (20, 12)), ("batch", "length"))
MASK = ("attention_mask", np.ones((20, 12), np.int64), ("batch", "length"))


def test_a_mask_is_tried_with_left_padding_holes_and_nothing():
    found = make(IDS, MASK)
    masks = {name: probe.feeds["attention_mask"][0].tolist() for name, probe in found.items() if "with" in name}
    assert masks == {
        "attention_mask with left padding": [0] * 4 + [1] * 8,
        "attention_mask with right padding": [1] * 8 + [0] * 4,
        "attention_mask with a hole": [1] * 4 + [0] * 4 + [1] * 4,
        "attention_mask with a single one": [1] + [0] * 11,
        "attention_mask with only zeros": [0] * 12,
    }
    assert not any(found[name].extreme for name in masks)
    assert all((found[name].feeds["input_ids"] == IDS[1][:ROWS]).all() for name in masks)


OTHERS = {"a hole", "a single one", "only zeros"}


@pytest.mark.parametrize(
    ("row", "unlike"),
    [
        ([1] * 12, {"left padding", "right padding", *OTHERS}),
        ([1] * 9 + [0] * 3, {"left padding", *OTHERS}),
        ([0] * 2 + [1] * 10, {"right padding", *OTHERS}),
        ([1] * 5 + [0] + [1] * 6, {"left padding", "right padding", "a single one", "only zeros"}),
        ([0] * 6 + [1] + [0] * 5, {"right padding", "a hole", "only zeros"}),
        ([0] * 12, {"left padding", "right padding", "a hole", "a single one"}),
    ],
)
@pytest.mark.parametrize("rank", [2, 3])
def test_a_mask_that_no_row_has_is_unlike_the_data(row, unlike, rank):
    """A network that was trained has seen no such row, and is not wrong there."""
    mask = np.ones((20, 12) if rank == 2 else (20, 4, 12), np.int64)
    mask[15, ..., :] = row  # after the rows of a probe
    found = make(IDS, ("attention_mask", mask, ("batch", "length") if rank == 2 else ("batch", 4, "length")))
    masks = {name.partition(" with ")[2]: probe for name, probe in found.items() if " with " in name}
    assert {name for name, probe in masks.items() if probe.unlike_data} == unlike


@pytest.mark.parametrize("short", [True, False])
def test_the_size_1_is_unlike_data_in_which_no_row_is_so_short(short):
    mask = np.ones((20, 12), np.int64)
    mask[15, 1 if short else 2 :] = 0
    found = make(IDS, ("attention_mask", mask, ("batch", "length")))
    assert {name: found[name].unlike_data for name in ("length of 1", "length of 6", "length of 24")} == {
        "length of 1": not short,
        "length of 6": False,
        "length of 24": False,
    }


@pytest.mark.parametrize("row", [[1] * 8 + [0] * 4, [0] * 3 + [1] * 9, [1] * 12])
def test_a_longer_mask_has_the_pattern_of_the_data(row):
    """Repeated as a whole, right padding would become a hole, which a network that was trained has never seen."""
    mask = np.tile(np.array(row), (20, 1))
    ids = ("ids", np.where(mask, RANDOM.integers(5, 99, mask.shape), 0), ("batch", "length"))
    grown = make(ids, ("attention_mask", mask, ("batch", "length")))["length of 24"].feeds
    assert grown["attention_mask"].tolist() == [[each for each in row for _ in range(2)]] * len(grown["ids"])
    assert list_patterns(grown["attention_mask"]) == list_patterns(np.array([row]))
    assert np.array_equal(grown["ids"] > 0, grown["attention_mask"] > 0), "no padding is attended"


@pytest.mark.parametrize("dtype", [bool, np.float32, np.uint8])
def test_masks_of_other_types_and_ranks_are_known(dtype):
    allowed = np.ones((9, 2, 6), dtype)
    (found,) = {
        probe.feeds["m_mask"].dtype
        for name, probe in make(("m_mask", allowed, ("batch", 2, 6))).items()
        if "hole" in name
    }
    assert found == dtype


def test_integers_cover_what_float32_int32_and_float64_round():
    found = make(("user", RANDOM.integers(0, 99, (20, 3)), ("batch", 3)))
    largest = max(int(probe.feeds["user"].max()) for probe in found.values())
    assert largest > 2**53
    assert min(int(probe.feeds["user"].min()) for probe in found.values()) < -(2**53)
    values = found["user of 16777216 to 2147483648"].feeds["user"]
    assert (values > 2**24).all()
    assert len(np.unique(values)) > 10
    groups = {name: probe.group for name, probe in found.items() if probe.group}
    assert all(group == ("user -1" if " to -" in name else "user 1") for name, group in groups.items())
    assert set(groups.values()) == {"user 1", "user -1"}


def test_integers_stay_within_their_type():
    found = make(("pixels", np.full((20, 4), 255, np.uint8), ("batch", 4)))
    assert [name for name in found if "pixels of" in name] == ["pixels of 0 to 255"]
    assert all(probe.feeds["pixels"].dtype == np.uint8 for probe in found.values())


def test_numbers_are_tried_as_zeros_and_where_only_conversions_must_agree():
    found = make(("x", RANDOM.normal(size=(20, 3)).astype(np.float32), ("batch", 3)))
    assert [name for name, probe in found.items() if not probe.extreme] == ["zeros"]
    assert {name for name, probe in found.items() if probe.extreme} == {
        "denormal numbers", "NaN in x", "infinity in x", "-infinity in x",
    }  # fmt: skip
    nan = found["NaN in x"].feeds["x"]
    assert np.isnan(nan).sum(axis=1).tolist() == [1] * ROWS
    tiny = found["denormal numbers"].feeds["x"]
    assert ((tiny > 0) & (tiny < np.finfo(np.float32).tiny)).all()


def test_columns_of_text_are_tried_empty_and_with_what_no_row_has():
    found = make(("city", np.array([["a"], ["b"]] * 10), ("batch", 1)), ("age", np.ones((20, 1)), ("batch", 1)))
    assert found["empty text in city"].feeds["city"].tolist() == [[""]] * ROWS
    assert not np.isin(found["unseen text in city"].feeds["city"], ["a", "b"]).any()


def test_dimensions_are_tried_at_1_and_at_the_most_that_the_model_takes():
    found = make(IDS, MASK, limits={"length": 64})
    assert found["length of 1"].feeds["input_ids"].shape == (ROWS, 1)
    assert found["length of 48"].feeds["attention_mask"].shape == (ROWS, 48), "four times the data's, at most"
    assert found["length of 48"].sizes == {"length": 48}
    assert "length of 40" in make(IDS, MASK, limits={"length": 40})
    assert "length of 24" in make(IDS, MASK)
    assert found["length of 6"].feeds["input_ids"].shape == (ROWS, 6), "half the data's"
    assert not found["length of 1"].lenient


@pytest.mark.parametrize("dims", [("batch", 3, "height", "width"), ("batch", "height", 2)])
def test_a_picture_or_a_signal_may_be_wrong_at_the_size_1_only(dims):
    image = np.zeros((8, *(size if isinstance(size, int) else 16 for size in dims[1:])), np.float32)

    found = make(("image", image, dims))

    assert found["height of 1"].lenient
    assert not found["height of 8"].lenient
    assert not found["height of 32"].lenient


def test_what_would_be_very_large_is_not_tried():
    image = np.zeros((8, 3, 600, 600), np.float32)
    found = make(("image", image, ("batch", 3, "height", 600)))
    assert "height of 1" in found
    assert "height of 1200" not in found


def test_a_table_of_many_columns_has_few_probes():
    """Beyond the first eight of a kind they share probes; each row has one number that is none, in another column."""
    columns = [(f"c{n}", RANDOM.normal(size=(20, 1)), ("batch", 1)) for n in range(200)]
    columns += [(f"n{n}", RANDOM.integers(0, 5, (20, 1)), ("batch", 1)) for n in range(200)]
    found = make(*columns)
    assert len(found) < 200
    shared = found["NaN in c8 and 191 more inputs"].feeds
    missing = [name for name, array in shared.items() if array.dtype.kind == "f" and np.isnan(array).any()]
    assert missing == [f"c{n}" for n in range(8, 8 + ROWS)]
    assert (found["n8 and 191 more inputs of 16777216 to 2147483648"].feeds["n199"] > 2**24).all()


def test_inputs_without_numbers_have_no_probes():
    assert make(("none", np.zeros((20, 0), np.float32), ("batch", 0))) == {}


def test_flags_and_small_classes_are_tried_beyond_what_the_splits_hold():
    flag, kind = ("flag", np.zeros(20, bool), ("batch",)), ("kind", RANDOM.integers(0, 5, (20, 1)), ("batch", 1))
    found = make(flag, kind)
    assert found["True in flag"].feeds["flag"].all()
    assert {"kind of 4 to 8", "kind of 8 to 16"} <= found.keys()


def test_numbers_of_every_size_are_drawn():
    """Evenly drawn ones would nearly all be near the largest: ONNX Runtime's Clip is wrong from 2^31 to 2^32 only."""
    found = make(("kind", RANDOM.integers(0, 50, (20, 3)), ("batch", 3)))
    values = found["kind of 4294967296 to 9007199254740992"].feeds["kind"]
    assert (values < 2**40).any()
    assert ((found["kind of 2147483648 to 4294967296"].feeds["kind"] >> 31) == 1).sum() > 10
