from __future__ import annotations

from http import HTTPStatus

import numpy as np
import pytest

from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.tensors import check_result, check_shape, decode_values


def send(content, datatype="FP32", *, finite=True):
    return decode_values("x", datatype, content, shape=[2, 2], finite=finite)


@pytest.mark.parametrize("content", [[1, 2.5, 3, 4], [[1, 2.5], [3, 4]], (1.0, 2.5, 3.0, 4.0)])
def test_numbers_may_be_flat_or_nested(content) -> None:
    found = send(content)
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
        send(content, datatype)


def test_grpc_may_send_values_that_are_not_finite() -> None:
    assert np.isinf(send([float("inf"), 1.0, 2.0, 3.0], finite=False)).sum() == 1


@pytest.mark.parametrize("shape", [[0, 2], [-1, 2], [2**40]])
def test_a_size_beyond_the_limits_is_refused(shape) -> None:
    with pytest.raises(RequestError, match="shape of x"):
        check_shape("x", shape)


def test_texts_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(RequestError, match="not UTF-8"):
        send([b"a", b"b", b"c", b"\xff"], "BYTES")


def test_a_result_of_another_type_is_an_error_of_the_server() -> None:
    with pytest.raises(RequestError, match="float64") as refused:
        check_result("y", "FP32", np.zeros(2))
    assert refused.value.status == HTTPStatus.INTERNAL_SERVER_ERROR
