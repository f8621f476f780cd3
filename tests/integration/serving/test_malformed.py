"""Requests that are wrong: the protocol's error, and the next request on the same connection succeeds."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from linear_winners import compute_linear
from running_server import send

pytestmark = pytest.mark.toolchain

X = [[0.1, 0.2, 0.3, 0.4]]
INPUT = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
INFER = "/v2/models/linear/infer"
VALID = {"inputs": [{**INPUT, "data": X}]}
LENGTH = "Inference_Header_Content_Length"


def change(**changes) -> bytes:
    return json.dumps({"inputs": [{**INPUT, "data": X, **changes}]}).encode()


def make_binary(size, tail: bytes) -> tuple[bytes, dict[str, str]]:
    head = json.dumps({"inputs": [{**INPUT, "parameters": {"binary_data_size": size}}]}).encode()
    return head + tail, {LENGTH: str(len(head))}


LARGE = 1 << 21
REQUESTS = {
    "empty": (b"", {}, 400),
    "not JSON": (b"hello", {}, 400),
    "cut JSON": (json.dumps(VALID).encode()[:-9], {}, 400),
    "not UTF-8": (b'{"inputs": "\xff\xfe"}', {}, 400),
    "an array": (b"[]", {}, 400),
    "deep": (b"[" * 100_000, {}, 400),
    "no inputs": (b"{}", {}, 400),
    "an empty list of inputs": (b'{"inputs": []}', {}, 400),
    "wrong name": (change(name="z"), {}, 400),
    "a name that is a number": (change(name=7), {}, 400),
    "given twice": (json.dumps({"inputs": [{**INPUT, "data": X}] * 2}).encode(), {}, 400),
    "wrong type": (change(datatype="INT64"), {}, 400),
    "unknown type": (change(datatype="FP128"), {}, 400),
    "wrong rank": (change(shape=[4]), {}, 400),
    "wrong size": (change(shape=[1, 5], data=[1] * 5), {}, 400),
    "negative size": (change(shape=[-1, 4]), {}, 400),
    "no rows": (change(shape=[0, 4], data=[]), {}, 400),
    "huge shape": (change(shape=[2**31 - 1, 4], data=[0] * 4), {}, 413),
    "nested as another shape": (change(shape=[1, 4], data=[[0, 0], [0, 0]]), {}, 400),
    "nested the other way": (change(shape=[2, 2], data=[[0, 0, 0, 0]]), {}, 400),
    "a name of a megabyte": (change(name="x" * 900_000), {}, 400),
    "too many rows": (change(shape=[101, 4], data=[0] * 404), {}, 413),
    "fewer values than the shape": (change(data=[1, 2, 3]), {}, 400),
    "ragged": (change(data=[[1, 2, 3], 4]), {}, 400),
    "NaN": (change().replace(b"0.1", b"NaN"), {}, 400),
    "NaN as text": (change(data=["NaN", 1, 2, 3]), {}, 400),
    "beyond the range": (change().replace(b"0.1", b"1e39"), {}, 400),
    "beyond any range": (change().replace(b"0.1", b"1e400"), {}, 400),
    "null": (change(data=[None, 1, 2, 3]), {}, 400),
    "unknown output": (json.dumps({**VALID, "outputs": [{"name": "z"}]}).encode(), {}, 400),
    "output without a name": (json.dumps({**VALID, "outputs": [{}]}).encode(), {}, 400),
    "output twice": (json.dumps({**VALID, "outputs": [{"name": "y"}] * 2}).encode(), {}, 400),
    "inputs are no list": (b'{"inputs": {}}', {}, 400),
    "an input is no object": (b'{"inputs": [1]}', {}, 400),
    "an empty input": (b'{"inputs": [{}]}', {}, 400),
    "no datatype": (b'{"inputs": [{"name": "x", "shape": [1, 4], "data": [1, 2, 3, 4]}]}', {}, 400),
    "no shape": (b'{"inputs": [{"name": "x", "datatype": "FP32", "data": [1, 2, 3, 4]}]}', {}, 400),
    "no data": (json.dumps({"inputs": [INPUT]}).encode(), {}, 400),
    "data and a size": (change(parameters={"binary_data_size": 16}), {}, 400),
    "data is a number": (change(data=1), {}, 400),
    "a shape of fractions": (change(shape=[1.0, 4.0]), {}, 400),
    "a shape of texts": (change(shape=["1", "4"]), {}, 400),
    "a shape of truth values": (change(shape=[True, 4]), {}, 400),
    "a truth value as a number": (change(data=[True, 1, 2, 3]), {}, 400),
    "parameters are a list": (json.dumps({**VALID, "parameters": []}).encode(), {}, 400),
    "a choice that is a text": (json.dumps({**VALID, "parameters": {"binary_data_output": "yes"}}).encode(), {}, 400),
    "an id that is a number": (json.dumps({**VALID, "id": 7}).encode(), {}, 400),
    "half in JSON": (change(datatype="FP16"), {}, 400),
    "binary: short": (*make_binary(16, b"\0" * 15), 400),
    "binary: long": (*make_binary(16, b"\0" * 17), 400),
    "binary: another size": (*make_binary(12, b"\0" * 12), 400),
    "binary: negative size": (*make_binary(-16, b"\0" * 16), 400),
    "binary: no number": (*make_binary("16", b"\0" * 16), 400),
    "binary: a truth value as a size": (*make_binary(True, b"\0" * 16), 400),
    "binary: a size beyond the body": (*make_binary(17, b"\0" * 16), 400),
    "binary: a size of less than the body": (*make_binary(4, b"\0" * 16), 400),
    "binary: length is empty": (change(), {LENGTH: ""}, 400),
    "binary: length is negative": (change(), {LENGTH: "-1"}, 400),
    "binary: length is 0": (change(), {LENGTH: "0"}, 400),
    "binary: length has an exponent": (change(), {LENGTH: "1e2"}, 400),
    "binary: length is huge": (change(), {LENGTH: "9" * 40}, 400),
    "binary: no length": (make_binary(16, b"\xff" * 16)[0], {}, 400),
    "binary: length beyond the body": (change(), {LENGTH: "99999"}, 400),
    "binary: length is a text": (change(), {LENGTH: "abc"}, 400),
    "many inputs": (b'{"inputs": [%s]}' % b",".join([b"{}"] * 100_000), {}, 400),
    "many numbers as inputs": (b'{"inputs": [%s]}' % b",".join([b"1"] * 100_000), {}, 400),
    "many outputs": (json.dumps({**VALID, "outputs": [{"name": "y"}] * 20_000}).encode(), {}, 400),
    "many sizes": (change(shape=["1"] * 100_000), {}, 400),
    "nested as deep as its shape": (change(shape=[1] * 600, data=json.loads("[" * 600 + "0.1" + "]" * 600)), {}, 400),
    "many parameters": (change(parameters={str(number): number for number in range(20_000)}), {}, 400),
    "too large": (b" " * LARGE, {}, 413),
    "bomb": (gzip.compress(b" " * (LARGE * 50), mtime=0), {"content_encoding": "gzip"}, 413),
    "not gzip": (change(), {"content_encoding": "gzip"}, 400),
    "unknown encoding": (change(), {"content_encoding": "br"}, 415),
    "text instead of JSON's text": (
        b'{"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 4], "data": [1]}]}',
        {},
        400,
    ),
}


@pytest.mark.attack(
    what="a request that fills the memory, is never read to its end, or ends the connection of others",
    who="network",
    stopped_by="limits of bytes, also after decompression, and of rows; every error has an answer",
)
@pytest.mark.parametrize("name", REQUESTS)
def test_the_protocols_error_and_the_connection_stays_open(server, name: str) -> None:
    body, headers, status = REQUESTS[name]
    connection = server.connect()
    assert send(connection, "/v2/health/live")[0] == 200
    before = connection.sock
    found = send(connection, INFER, body, **headers)
    assert found[0] == status, found
    assert list(found[1]) == ["error"]
    assert isinstance(found[1]["error"], str)
    assert "Traceback" not in found[1]["error"]
    answered = send(connection, INFER, VALID)
    assert answered[0] == 200
    np.testing.assert_allclose(answered[1]["outputs"][0]["data"], compute_linear(X).ravel(), rtol=1e-5)
    assert connection.sock is before


@pytest.mark.parametrize(
    ("name", "sent", "said"),
    [
        ("flag", b"\0\2", "other than 0 and 1"),
        ("text", b"\2\0\0\0ab", "do not fit"),
        ("text", b"\xff\xff\xff\xffab", "do not fit"),
        ("text", b"\2\0", "do not fit"),
        ("text", b"\1\0\0\0a\1\0\0\0\xff", "not UTF-8"),
        ("count", b"\0" * 15, "do not fit"),
        ("half", b"\0" * 3, "do not fit"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(server, name: str, sent: bytes, said: str) -> None:
    content = {"text": b"\1\0\0\0a" * 2, "half": b"\0" * 4, "count": b"\0" * 16, "pixel": b"\0\0", "flag": b"\0\1"}
    kinds = {"text": "BYTES", "half": "FP16", "count": "INT64", "pixel": "UINT8", "flag": "BOOL"}

    def infer() -> tuple[int, object]:
        inputs = [
            {"name": key, "datatype": kinds[key], "shape": [2], "parameters": {"binary_data_size": len(content[key])}}
            for key in kinds
        ]
        head = json.dumps({"inputs": inputs, "outputs": [{"name": "sum"}]}).encode()
        return server.call("/v2/models/mixed/infer", head + b"".join(content.values()), **{LENGTH: str(len(head))})

    assert infer()[0] == 200
    content[name] = sent
    status, found = infer()
    assert status == 400
    assert said in found["error"]


def test_a_chunked_request_has_the_same_limit(server) -> None:
    connection = server.connect()
    connection.request("POST", INFER, iter([b" " * (1 << 18)] * 8), encode_chunked=True)
    assert connection.getresponse().status == 413


@pytest.mark.parametrize(
    "sent",
    [
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{",
        b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n{}",
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n{}",
        b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\0\1\2\3%s\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%s",
    ],
)
def test_a_cut_stream_and_no_http_leave_the_server_alive(server, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
        connection.sendall(sent.replace(b"%s", INFER.encode()))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert server.call(INFER, VALID)[0] == 200


def test_grpc_requests_that_are_wrong(server, triton_client) -> None:
    script = Path(__file__).parent / "grpc_malformed.py"
    subprocess.run([sys.executable, script, server.line["grpc"]], check=True, env=triton_client, timeout=120)


def test_none_of_them_was_an_error_of_the_server(server) -> None:
    assert server.log.read_text() == ""
    assert server.process.poll() is None


@pytest.mark.attack(
    what="a client that sends headers without an end",
    who="network",
    stopped_by="a limit of bytes for the head of a request, after which the connection is closed",
)
@pytest.mark.parametrize("sent", [b"x: aaaaaaaaaaaaaaaaaaaa\r\n" * 64, b"a" * 4096], ids=["many", "one"])
def test_headers_without_an_end_close_the_connection(server, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nx: " % INFER.encode())
        with pytest.raises(OSError, match=r"reset|Broken pipe|timed out"):  # noqa: PT012 - the kernel buffers some
            for _ in range(10_000):
                connection.sendall(sent)
    assert server.call(INFER, VALID)[0] == 200


@pytest.mark.attack(
    what="clients that send their bodies slowly, so that nobody else is answered",
    who="network",
    stopped_by="a request takes a place in the queue when it is complete",
)
def test_slow_bodies_take_no_places(server) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.http_port), timeout=30) for _ in range(140)]
    try:
        for one in slow:
            one.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{" % INFER.encode())
        time.sleep(0.5)
        assert server.call(INFER, VALID)[0] == 200
    finally:
        for one in slow:
            one.close()


@pytest.mark.attack(
    what="trailers without an end, which are read after the answer",
    who="network",
    stopped_by="a limit of bytes for a whole request",
)
def test_trailers_without_an_end_close_the_connection(server) -> None:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        with pytest.raises(OSError, match=r"reset|Broken pipe|timed out"):  # noqa: PT012 - the kernel buffers some
            for _ in range(10_000):
                connection.sendall(b"x: aaaaaaaaaaaaaaaaaaaa\r\n" * 64)
    assert server.call(INFER, VALID)[0] == 200


@pytest.mark.attack(
    what="a small compressed request of 100,000 inputs, which takes gigabytes to check",
    who="network",
    stopped_by="the parts of a request are counted before they are checked",
)
@pytest.mark.parametrize("name", [name for name in REQUESTS if name.startswith("many ")])
def test_many_parts_are_counted_before_they_are_read(server, name: str) -> None:
    body, headers, _ = REQUESTS[name]
    with closing(http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)) as connection:
        found = send(connection, INFER, body, **headers)
    assert "has more than" in found[1]["error"]


@pytest.mark.attack(
    what="a second request in the body of one that asks for another protocol",
    who="network",
    stopped_by="400, and the connection ends",
)
def test_an_upgrade_hides_no_request_in_a_body(server) -> None:
    hidden = b"GET /v2/models/hidden HTTP/1.1\r\nHost: x\r\n\r\n"
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
        connection.sendall(head + f"Content-Length: {len(hidden)}\r\n\r\n".encode())
        time.sleep(0.3)  # as another packet
        found = b""
        try:
            connection.sendall(hidden)
            while part := connection.recv(65536):
                found += part
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.count(b"HTTP/1.1 ") == 1
    assert server.call(INFER, VALID)[0] == 200


@pytest.mark.attack(
    what="many small requests that become large when they are decompressed",
    who="network",
    stopped_by="each counts as large as it may become while it is decompressed, in a thread",
)
def test_compressed_requests_share_the_memory(server) -> None:
    body = gzip.compress(b" " * (1 << 20), mtime=0)
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda _: server.call(INFER, body, content_encoding="gzip")[0], range(64)))
    assert set(found) <= {400, 413, 429}
    assert server.call(INFER, VALID)[0] == 200


def test_an_error_quotes_little_of_a_large_request(server) -> None:
    _, found = server.call(INFER, change(name="x" * 900_000))
    assert len(found["error"]) < 2000
