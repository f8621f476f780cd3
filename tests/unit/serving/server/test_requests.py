from __future__ import annotations

import gzip
import json
from http import HTTPStatus

import numpy as np
import pytest

from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.requests import Request, Wanted, decompress, read_request, write_answer
from kedro_hone.serving.server.tensors import decode

INPUT = {"name": "x", "datatype": "FP32", "shape": [1, 2]}


def make(**more) -> bytes:
    return json.dumps({"inputs": [{**INPUT, "data": [1, 2]}], **more}).encode()


def make_binary(*tensors, tail: bytes) -> tuple[bytes, str]:
    head = json.dumps({"inputs": list(tensors)}).encode()
    return head + tail, str(len(head))


def test_a_request_may_have_an_id_and_outputs() -> None:
    found = read_request(make(id="7", outputs=[{"name": "y", "parameters": {"binary_data": True}}]), None)
    assert found.id == "7"
    assert found.outputs == (Wanted(name="y", binary=True),)
    assert decode(found.inputs[0]).tolist() == [[1, 2]]


def test_binary_data_belongs_to_the_inputs_in_order() -> None:
    first = {**INPUT, "parameters": {"binary_data_size": 8}}
    second = {"name": "t", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}}
    body, length = make_binary(first, second, tail=np.array([3, 4], "<f4").tobytes() + b"\1\0\0\0a")
    found = read_request(body, length)
    assert [decode(one).tolist() for one in found.inputs] == [[[3, 4]], ["a"]]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"inputs": [{"name": "x", "data": [NaN]}]}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "inputs are not a list"),
        (b'{"inputs": {}}', "inputs are not a list"),
        (b'{"inputs": [1]}', "inputs are not a list"),
        (b'{"inputs": [{}]}', "has no name"),
        (b'{"inputs": [{"name": "x"}]}', "no datatype"),
        (b'{"inputs": [{"name": "x", "datatype": "FP32"}]}', "shape of x"),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]}', "either data or"),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": 1}]}', "not a list"),
        (b'{"inputs": [], "id": 7}', "id is not a text"),
        (b'{"inputs": [], "outputs": [{"nam": "y"}]}', "an output has no name"),
        (b'{"inputs": [], "parameters": []}', "parameters of the request"),
    ],
)
def test_what_is_no_request_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(RequestError, match=said) as refused:
        read_request(body, None)
    assert refused.value.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("length", ["", "x", "-1", "0", "999999", "1e3", "\uff19", "9" * 40])
def test_a_wrong_length_of_the_json_is_refused(length: str) -> None:
    with pytest.raises(RequestError, match="inference-header-content-length"):
        read_request(make(), length)


@pytest.mark.parametrize(
    ("size", "said"),
    [(9, "8 bytes follow"), (-1, "bytes follow"), (True, "bytes follow"), (4, "4 bytes follow the data")],
)
def test_a_wrong_size_of_binary_data_is_refused(size, said: str) -> None:
    body, length = make_binary({**INPUT, "parameters": {"binary_data_size": size}}, tail=b"\0" * 8)
    with pytest.raises(RequestError, match=said):
        read_request(body, length)


def test_a_compressed_request_has_the_limit_of_its_content() -> None:
    body = gzip.compress(b"\0" * 10_000)
    assert decompress(body, "gzip", limit=10_000) == b"\0" * 10_000
    with pytest.raises(RequestError, match="larger than 9999") as refused:
        decompress(body, "gzip", limit=9_999)
    assert refused.value.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize(
    ("body", "encoding"), [(b"x", "gzip"), (gzip.compress(b"x", mtime=0)[:-3], "gzip"), (b"x", "br")]
)
def test_what_cannot_be_decompressed_is_refused(body: bytes, encoding: str) -> None:
    with pytest.raises(RequestError):
        decompress(body, encoding, limit=100)


def test_each_output_is_written_as_it_was_requested() -> None:
    request = Request(id="7", inputs=(), outputs=(Wanted(name="b", binary=False), Wanted(name="a")), binary=True)
    results = {"b": ("INT64", np.array([1, 2])), "a": ("FP32", np.ones((1, 2), np.float32))}
    body, length = write_answer(request, {"model_name": "m", "model_version": "4"}, results)
    assert json.loads(body[:length]) == {
        "model_name": "m",
        "model_version": "4",
        "id": "7",
        "outputs": [
            {"name": "b", "datatype": "INT64", "shape": [2], "data": [1, 2]},
            {"name": "a", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}},
        ],
    }
    assert np.frombuffer(body[length:], "<f4").tolist() == [1, 1]
