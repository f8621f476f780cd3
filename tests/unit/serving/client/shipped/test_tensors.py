from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kedro_hone.serving.client.shipped.tensors import InterfaceError, Tensor, decode, encode, find_differences

PAIR = (
    Tensor(name="ids", argument="ids", datatype="INT64", shape=("batch", "length")),
    Tensor(name="mask:0", argument="mask_0", datatype="INT64", shape=("batch", "length")),
)
TEXT = (Tensor(name="text", argument="text", datatype="BYTES", shape=("batch",)),)
NET = (Tensor(name="x", argument="x", datatype="FP32", shape=("batch", 3)),)


def test_arrays_get_the_models_names_and_their_sizes_are_noted() -> None:
    ids, sizes = np.zeros((2, 5), np.int64), dict[str, int]()
    sent = encode(PAIR, {"ids": ids, "mask_0": ids}, sizes)
    assert list(sent) == ["ids", "mask:0"]
    assert sizes == {"batch": 2, "length": 5}


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros((2, 3)), "float64, and float32 is due"),
        (np.zeros((2, 4), np.float32), r"\(2, 4\), and \('batch', 3\) is due"),
        (np.zeros(3, np.float32), r"\(3,\)"),
        ([[0.0, 0.0, 0.0]], "a list, and a numpy array is due"),
    ],
)
def test_another_type_or_shape_is_refused_by_the_argument(array: Any, why: str) -> None:
    with pytest.raises(InterfaceError, match=f"the argument x .*{why}"):
        encode(NET, {"x": array}, {})


def test_inputs_of_one_call_agree_in_each_named_dimension() -> None:
    arrays = {"ids": np.zeros((2, 5), np.int64), "mask_0": np.zeros((2, 4), np.int64)}
    with pytest.raises(InterfaceError, match=r"mask_0 .* where 'length' is 5"):
        encode(PAIR, arrays, {})


@pytest.mark.parametrize("array", [np.array(["grün", ""]), np.array(["grün", ""], object)])
def test_text_is_sent_as_bytes_and_returned_as_str(array: Any) -> None:
    sent = encode(TEXT, {"text": array}, {})["text"]
    assert sent.tolist() == ["grün".encode(), b""]
    for answer in (sent, np.array(["grün", ""])):  # REST returns text as text
        assert decode(TEXT, {"text": answer}, {})["text"].tolist() == ["grün", ""]


@pytest.mark.parametrize("array", [np.array([b"x"], object), np.array([1]), np.array([None], object)])
def test_other_values_are_no_text(array: Any) -> None:
    with pytest.raises(InterfaceError, match="an array of str is due"):
        encode(TEXT, {"text": array}, {})


@pytest.mark.parametrize("datatype", ["BF16", "FP32"])
def test_a_scalar_keeps_its_shape(datatype: str) -> None:
    scalar = Tensor(name="s", argument="s", datatype=datatype, shape=())
    assert encode([scalar], {"s": np.array(1, np.float32)}, {})["s"].shape == ()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "missing"),
        (np.zeros((2, 3), np.float64), "float64"),
        (np.zeros((1, 3), np.float32), "where 'batch' is 2"),
    ],
)
def test_an_output_that_does_not_match_is_no_result(answer: Any, why: str) -> None:
    with pytest.raises(InterfaceError, match=why):
        decode(NET, {"x": answer}, {"batch": 2})


def test_a_servers_metadata_are_compared_by_name_also_with_sizes_as_text() -> None:
    same = [{"name": "x", "datatype": "FP32", "shape": ["-1", "3"]}]
    assert find_differences("input", NET, same) == []
    other = [{"name": "x", "datatype": "FP32", "shape": [1, 3]}, {"name": "z", "datatype": "FP32", "shape": []}]
    first, second = find_differences("input", NET, other)
    assert "[1, 3]" in first
    assert "[-1, 3]" in first
    assert "missing" in second
