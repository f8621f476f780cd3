from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.tensors import Sent, decode, encode_bytes, encode_values, read_shape


def send(content, datatype="FP32", shape=(2, 2)):
    return Sent(name="x", datatype=datatype, shape=shape, content=content)


@pytest.mark.parametrize("content", [[1, 2.5, 3, 4], [[1, 2.5], [3, 4]], (1.0, 2.5, 3.0, 4.0)])
def test_numbers_may_be_flat_or_nested(content) -> None:
    found = decode(send(content))
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 2.5], [3, 4]]


@pytest.mark.parametrize(
    ("datatype", "content", "said"),
    [
        ("FP32", [1, 2, 3], "has 3 elements"),
        ("FP32", [[1, 2], [3]], "lists of equal lengths"),
        ("FP32", [[1, 2], 3, 4], "lists of equal lengths"),
        ("FP32", ["NaN", 1, 2, 3], "values of the type str"),
        ("FP32", [True, 1, 2, 3], "values of the type bool"),
        ("FP32", [None, 1, 2, 3], "values of the type NoneType"),
        ("FP32", [1e300, 1, 2, 3], "beyond the range"),
        ("FP64", [float("inf"), 1, 2, 3], "beyond the range"),
        ("INT64", [1.0, 1, 2, 3], "values of the type float"),
        ("INT64", [2**63, 1, 2, 3], "beyond the range"),
        ("INT8", [128, 1, 2, 3], "beyond the range"),
        ("UINT8", [-1, 1, 2, 3], "beyond the range"),
        ("BOOL", [1, 0, 1, 0], "values of the type int"),
        ("BYTES", [1, "a", "b", "c"], "values of the type int"),
        ("FP16", [1, 2, 3, 4], "binary data only"),
        ("FP32", [{}, 1, 2, 3], "values of the type dict"),
    ],
)
def test_a_value_of_another_type_or_range_is_refused(datatype: str, content, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        decode(send(content, datatype))


def test_grpc_may_send_values_that_are_not_finite() -> None:
    assert np.isinf(decode(send((float("inf"), 1.0, 2.0, 3.0)))).sum() == 1


@pytest.mark.parametrize(
    ("datatype", "content", "said"),
    [
        ("FP32", b"\0" * 15, "15 bytes instead of 16"),
        ("INT64", b"\0" * 16, "16 bytes instead of 32"),
        ("BOOL", b"\0\1\2\0", "other than 0 and 1"),
        ("BYTES", b"\2\0\0\0ab", "has 1 elements"),
        ("BYTES", b"\xff\0\0\0ab", "ends within a text"),
        ("BYTES", b"\2\0", "ends within a text"),
        ("BYTES", b"\1\0\0\0\xff" * 4, "not UTF-8"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(datatype: str, content: bytes, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        decode(send(content, datatype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool", "object"])
def test_bytes_come_back_as_they_were(dtype: str) -> None:
    values = np.array([["a", "ü"], ["", "x" * 300]], object) if dtype == "object" else np.array([[1, 0], [1, 1]], dtype)
    datatype = {"float32": "FP32", "float16": "FP16", "bool": "BOOL", "object": "BYTES"}.get(dtype, dtype.upper())
    found = decode(send(memoryview(b"?" + encode_bytes(values))[1:], datatype))
    assert found.dtype == values.dtype
    assert found.tolist() == values.tolist()
    assert found.flags.writeable
    assert found.flags.aligned


@pytest.mark.parametrize("shape", [None, "22", [2.0], [True], [0, 2], [-1, 2], [2**40], {"a": 1}])
def test_what_is_no_shape_is_refused(shape) -> None:
    with pytest.raises(RequestError, match="shape of x"):
        read_shape("x", shape)


def test_json_cannot_express_values_that_are_not_finite() -> None:
    with pytest.raises(RequestError, match="request it as binary"):
        encode_values("y", "FP32", np.array([np.nan], np.float32))


def test_texts_are_written_as_texts() -> None:
    assert encode_values("y", "BYTES", np.array([b"a", "ü"], object)) == ["a", "ü"]
