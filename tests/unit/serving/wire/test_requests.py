from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from kedro_hone.serving.tensors import Tensor
from kedro_hone.serving.wire.requests import decode_answer, encode_request

X = Tensor(name="x", datatype="FP32", shape=(-1, 2))
TEXT = Tensor(name="text", datatype="BYTES", shape=(-1,))


def test_a_request_has_its_tensors_after_the_json() -> None:
    rows, text = np.arange(4, dtype=np.float32).reshape(2, 2), np.array(["grün", ""])
    request = encode_request("net", {"x": rows, "text": text}, inputs=(X, TEXT), outputs=(X,))
    head, body = request.split(b"\r\n\r\n", 1)
    fields = dict(line.split(": ") for line in head.decode().split("\r\n")[1:])
    length = int(fields["Inference-Header-Content-Length"])
    header = json.loads(body[:length])
    assert head.startswith(b"POST /v2/models/net/infer HTTP/1.1\r\n")
    assert int(fields["Content-Length"]) == len(body)
    assert [one["parameters"]["binary_data_size"] for one in header["inputs"]] == [16, 13]
    assert body[length:] == rows.tobytes() + b"\x05\0\0\0" + "grün".encode() + b"\0\0\0\0"


@pytest.mark.parametrize(
    ("datatype", "array"),
    [("FP32", np.arange(4.0, dtype=np.float32)), ("BOOL", np.array([True])), ("BYTES", np.array(["grün", "", "a"]))],
)
def test_an_answer_is_read_binary_and_as_json(datatype: Any, array: np.ndarray) -> None:
    tensor = Tensor(name="y", datatype=datatype, shape=(-1,))
    request = encode_request("net", {"y": array}, inputs=(tensor,), outputs=())
    body = request.split(b"\r\n\r\n", 1)[1]
    content = body[body.rindex(b"}") + 1 :] if datatype != "FP32" else array.tobytes()
    described = {"name": "y", "datatype": datatype, "shape": list(array.shape)}
    binary = json.dumps({"outputs": [{**described, "parameters": {"binary_data_size": len(content)}}]}).encode()
    plain = json.dumps({"outputs": [{**described, "data": array.tolist()}]}).encode()
    for answer, length in ((binary + content, len(binary)), (plain, len(plain))):
        found = decode_answer(answer, length)["y"]
        assert found.dtype.kind == array.dtype.kind
        assert found.tolist() == array.tolist()


def test_numbers_of_the_upper_sixteen_bits_are_rounded_to_the_nearest_even() -> None:
    tensor = Tensor(name="y", datatype="BF16", shape=(-1,))
    exact = np.float32([0.0, 1.0, -2.5, np.inf, np.nan])
    between = np.float32([1 + 2**-8, 1 + 3 * 2**-8, np.frombuffer(b"\xff\xff\xff\x7f", "<f4")[0]])
    array = np.concatenate([exact, between])
    body = encode_request("net", {"y": array}, inputs=(tensor,), outputs=()).split(b"\r\n\r\n", 1)[1]
    described = {"name": "y", "datatype": "BF16", "shape": [8]}
    header = json.dumps({"outputs": [{**described, "parameters": {"binary_data_size": 16}}]}).encode()
    found = decode_answer(header + body[-16:], len(header))["y"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.float32([*exact, 1, 1 + 4 * 2**-8, np.nan]))
    plain = json.dumps({"outputs": [{**described, "data": [1.5] * 8}]}).encode()
    assert decode_answer(plain, len(plain))["y"].tolist() == [1.5] * 8


def test_bytes_that_belong_to_no_output_are_no_answer() -> None:
    header = b'{"outputs": []}'
    with pytest.raises(ValueError, match="16 bytes"):
        decode_answer(header + b"x", len(header))
