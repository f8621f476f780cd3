"""Fingerprints: equal where a model may see the same, and different elsewhere."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest

from kedro_hone.derivation.fingerprints import encode_value, hash_rows

SAME = [
    ("1", 1, 1.0, "1.0", "01", np.int8(1), np.float32(1), " 1"),
    ("0.1", 0.1, np.float32(0.1), "1e-1", 0.1 + 1e-12),
    (None, float("nan"), "", "NA", np.float64("nan")),
    (True, "True", "true", np.bool_(True)),
    ("Élan  vital", "elan vital", "ELAN VITAL ", "E\u0301lan vital"),
    ([1, "a"], (1.0, "A"), np.array([1, "a"], dtype=object)),
    ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}),
    (2**53, float(2**53), str(2**53)),
    (0.0, -0.0, 0, "-0"),
]


@pytest.mark.parametrize("values", SAME)
def test_values_that_a_model_may_see_alike_are_equal(values):
    assert len({encode_value(value) for value in values}) == 1


def test_other_values_differ():
    values = [*(group[0] for group in SAME), 2, 0.2, "a", "b", "a b", "ab", [1], [[1]], {"a": 1}, b"a", 2**53 + 1]
    values += [np.array([[1.0, 2.0]]), np.array([1.0, 2.0]), np.array([1.0, 3.0]), float("inf"), float("-inf")]
    assert len({encode_value(value) for value in values}) == len(values)


def test_the_type_of_an_array_does_not_count():
    rows = np.array([[0.5, -0.0], [np.nan, 2.0]])
    found = {tuple(hash_rows({"x": rows.astype(kind)}, 2)) for kind in ("<f4", ">f4", "<f8", ">f8")}
    assert len(found) == 1
    found = {tuple(hash_rows({"x": np.array([[1, 2]], dtype=kind)}, 1)) for kind in ("u1", "<i4", ">i4", "i8")}
    assert len(found) == 1


def test_the_order_of_columns_does_not_count_but_their_names_do():
    one, other = ["1", "2"], ["3", "1"]
    assert hash_rows({"a": one, "b": other}, 2) == hash_rows({"b": other, "a": one}, 2)
    assert hash_rows({"a": one, "b": other}, 2) != hash_rows({"a": other, "b": one}, 2)


def test_values_do_not_run_into_each_other():
    first, second = hash_rows({"a": ["ab", "a"], "b": ["c", "bc"]}, 2)
    assert first != second


def test_hashes_are_the_same_on_every_machine():
    (found,) = hash_rows({"age": ["42"], "city": ["São Paulo"], "spent": ["0.1"]}, 1)
    assert found.hex() == "530019dc3dbdf6ee6a3d97f4542bf26546c3986a93caa0980ce9151aa0b431f6"


def frame(part: bytes) -> bytes:
    return struct.pack("<Q", len(part)) + part


def test_columns_are_hashed_as_their_values_one_by_one():
    draw = np.random.default_rng(0)
    numbers = [*draw.normal(size=400), *draw.normal(size=50) * 1e30, *draw.normal(size=50) * 2.0**53, 2.0**24 + 0.5]
    numbers += [2.0**24 - 0.5, 2.0**53, 2.0**53 + 2, -0.0, 1e-50, 0.1, 16777217.0, float("nan"), float("inf")]
    cells = [
        *map(repr, numbers),
        "",
        "NA",
        "007",
        "+7",
        "-0",
        "1.",
        ".5",
        "1e3",
        "1e300",
        "9007199254740993",
        " 1",
        "1_0",
        "e",
    ]
    for column in (cells, cells[:-3], numbers, np.array(numbers), np.array(numbers, "f4"), np.arange(500) - 250):
        expected = [
            hashlib.sha256(b"hone-rows-1" + frame(b"x") + frame(encode_value(value))).digest()
            for value in np.asarray(column).tolist()
        ]
        assert hash_rows({"x": column}, len(column)) == expected


def test_more_rows_than_are_encoded_at_once():
    column = [f"{at % 9000}.5" for at in range(20_000)]
    found = hash_rows({"x": column, "y": ["a"] * 20_000}, 20_000)
    assert len(set(found)) == 9000
    assert found[:2000] == found[9000:11000] == found[18000:]
