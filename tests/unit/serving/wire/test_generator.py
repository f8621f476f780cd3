from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import sleep
from typing import Any

import pytest

from kedro_hone.serving.wire.generator import AnswerError, read_cpu_seconds, run_job

HEADER = b'{"outputs": []}'


@contextmanager
def serve(answer: Any) -> Iterator[int]:
    """Serve answers: ``answer`` gets the body and the handler, which has protocol 1.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer(self.rfile.read(int(self.headers["Content-Length"])), self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(body: bytes, handler: BaseHTTPRequestHandler, *, pieces: int = 1, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Inference-Header-Content-Length", str(len(HEADER)))
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    size = max(1, len(body) // pieces)
    for start in range(0, len(body), size):
        handler.wfile.write(body[start : start + size])
        handler.wfile.flush()


def make_job(port: int, *, body: bytes = b"{}", clients: int = 1, seconds: float = 0.1) -> dict[str, Any]:
    request = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    return {
        "port": port,
        "pid": os.getpid(),
        "request": base64.b64encode(request).decode(),
        "clients": clients,
        "seconds": seconds,
        "fewest": 5 * clients,
        "warm": 0.0,
    }


@pytest.mark.parametrize("clients", [1, 4])
def test_each_answer_is_counted_once(clients: int) -> None:
    seen: list[int] = []

    def answer(body: bytes, handler: BaseHTTPRequestHandler) -> None:
        seen.append(len(body))
        reply(HEADER + b"1234", handler)

    with serve(answer) as port:
        found = run_job(make_job(port, clients=clients))
    assert len(found["latencies"]) + clients == len(seen)  # the warm-up
    assert len(found["latencies"]) == found["answered"] + clients - 1  # those in flight at the end
    assert found["answered"] >= 5 * clients
    assert found["different"] == 1
    assert min(found["latencies"]) > 0
    assert found["answers"] == [[len(HEADER), base64.b64encode(HEADER + b"1234").decode()]]


def test_large_requests_and_answers_in_pieces_are_whole() -> None:
    large = os.urandom(4 << 20)

    def answer(body: bytes, handler: BaseHTTPRequestHandler) -> None:
        assert body == large
        reply(HEADER + large, handler, pieces=7)

    with serve(answer) as port:
        found = run_job(make_job(port, body=large, clients=2, seconds=0.0))
    assert found["answers"] == [[len(HEADER), base64.b64encode(HEADER + large).decode()]]


def test_different_answers_are_all_returned() -> None:
    count = iter(range(10**6))
    with serve(lambda _, handler: reply(HEADER + b"%d" % (next(count) % 3), handler)) as port:
        found = run_job(make_job(port))
    assert [base64.b64decode(body)[len(HEADER) :] for _, body in found["answers"]] == [b"0", b"1", b"2"]


def test_all_different_answers_are_counted_and_the_first_ones_returned() -> None:
    count = iter(range(10**6))
    with serve(lambda _, handler: reply(HEADER + b"%d" % next(count), handler)) as port:
        found = run_job({**make_job(port, seconds=0.0), "fewest": 70})
    assert (found["different"], len(found["answers"])) == (70, 64)


def test_the_slowest_answer_counts_although_it_comes_after_the_end() -> None:
    count = iter(range(10**6))

    def answer(_: bytes, handler: BaseHTTPRequestHandler) -> None:
        if next(count) == 4:  # two are of the warm-up: it is in flight when the others end the turn
            sleep(0.5)
        reply(HEADER, handler)

    with serve(answer) as port:
        found = run_job(make_job(port, clients=2, seconds=0.0))
    assert found["answered"] == 10
    assert max(found["latencies"]) >= 0.5e9


def test_a_refused_request_ends_the_job() -> None:
    def refuse(_: bytes, handler: BaseHTTPRequestHandler) -> None:
        reply(b'{"error": "no"}', handler, status=400)

    with serve(refuse) as port, pytest.raises(AnswerError, match="400"):
        run_job(make_job(port))


def test_a_closed_connection_ends_the_job() -> None:
    def answer(_: bytes, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True

    with serve(answer) as port, pytest.raises(AnswerError, match="closed"):
        run_job(make_job(port))


def test_the_cpu_time_is_that_of_a_process_and_its_children() -> None:
    before = read_cpu_seconds(os.getpid())
    sum(n * n for n in range(2_000_000))
    assert read_cpu_seconds(os.getpid()) > before
    assert read_cpu_seconds(2**22 + 1) == 0.0
