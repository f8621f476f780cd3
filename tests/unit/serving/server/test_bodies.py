from __future__ import annotations

import asyncio
import gzip
import random
import time
import zlib
from http import HTTPStatus

import pytest
from starlette.requests import Request

from kedro_hone.serving.server import bodies
from kedro_hone.serving.server.bodies import Receiving, decompress
from kedro_hone.serving.server.failures import RequestError


def make_request(body: bytes, encoding: str = "gzip", **headers: str) -> Request:
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    given = {"content-encoding": encoding, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Request({"type": "http", "headers": [(a.encode(), b.encode()) for a, b in given.items()]}, receive)


def read(body: bytes, *, limit: int, total: int = 64 << 20) -> bytes:
    async def run() -> bytes:
        receiving = Receiving(total)
        try:
            async with receiving.read(make_request(body), limit=limit) as content:
                assert receiving._used == len(content)
                return content
        finally:
            assert receiving._used == 0

    return asyncio.run(run())


def test_a_compressed_request_has_the_limit_of_its_content() -> None:
    body = gzip.compress(b"\0" * 10_000, mtime=0)
    assert read(body, limit=10_000) == b"\0" * 10_000
    with pytest.raises(RequestError, match="larger than 9999") as refused:
        read(body, limit=9_999)
    assert refused.value.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize("length", ["10001", "9" * 30, "9" * 5000], ids=len)
def test_a_length_that_is_declared_has_the_limit(length: str) -> None:
    async def run() -> None:
        async with Receiving(1 << 20).read(make_request(b"x", "", content_length=length), limit=10_000):
            pytest.fail("it was read")

    with pytest.raises(RequestError, match="larger than 10000"):
        asyncio.run(run())


@pytest.mark.parametrize(
    "content",
    [b"\0" * (3 << 20), random.Random(0).randbytes((2 << 20) + 5), b"", b"x"],
    ids=["zeros", "random", "empty", "short"],
)
def test_content_of_several_pieces_is_whole(content: bytes) -> None:
    assert b"".join(decompress(gzip.compress(content), "gzip")) == content
    assert read(gzip.compress(content), limit=4 << 20) == content


def test_several_encodings_are_refused() -> None:
    """Only the first header was read, and compressed bytes were taken for the content."""
    request = make_request(gzip.compress(b"x"), "identity")
    request.scope["headers"].append((b"content-encoding", b"gzip"))

    async def run() -> None:
        async with Receiving(1 << 20).read(request, limit=10_000):
            pytest.fail("it was read")

    with pytest.raises(RequestError, match="'identity, gzip' is not known"):
        asyncio.run(run())
    assert b"".join(decompress(gzip.compress(b"x"), "x-gzip")) == b"x"


def test_small_compressed_requests_count_as_their_content() -> None:
    async def run() -> None:
        receiving, body = Receiving(100_000), gzip.compress(b"x" * 1000)

        async def wait() -> None:
            async with receiving.read(make_request(body), limit=4 << 20):
                await asyncio.sleep(0.2)

        await asyncio.gather(*(wait() for _ in range(90)))
        assert receiving._used == 0

    asyncio.run(run())


def test_a_body_that_expands_is_refused_before_all_of_it_is_made(monkeypatch) -> None:
    made = []

    def count(*given):
        for piece in decompress(*given):
            made.append(len(piece))
            yield piece

    monkeypatch.setattr(bodies, "decompress", count)
    with pytest.raises(RequestError, match="already has 2 MiB") as refused:
        read(gzip.compress(b"\0" * (64 << 20)), limit=64 << 20, total=2 << 20)
    assert refused.value.status == HTTPStatus.TOO_MANY_REQUESTS
    assert sum(made) <= (2 << 20) + (64 << 10)


def test_a_body_without_content_gives_way_to_others() -> None:
    """Blocks of no bytes took seconds at once, which no time limit ended."""
    writer = zlib.compressobj(wbits=31)
    empty = b"".join(writer.compress(b"") + writer.flush(zlib.Z_FULL_FLUSH) for _ in range(60_000)) + writer.flush()
    pieces = [*decompress(empty, "gzip")]
    assert not any(pieces)
    assert len(pieces) >= len(empty) // (64 << 10)


def test_decompression_has_the_time_limit_of_the_request(monkeypatch) -> None:
    def wait(*_):
        while True:
            time.sleep(0.01)
            yield b""

    monkeypatch.setattr(bodies, "decompress", wait)
    monkeypatch.setattr(bodies, "_BODY_SECONDS", 0.1)
    with pytest.raises(RequestError, match="not complete") as refused:
        read(b"x", limit=100)
    assert refused.value.status == HTTPStatus.REQUEST_TIMEOUT


def test_a_large_body_is_read_in_slices(monkeypatch) -> None:
    """Each call copies what it does not read: with the whole body, a request took seconds."""
    given = []

    class Reader:
        def __init__(self, window: int) -> None:
            self._real = real(window)

        def decompress(self, rest: bytes, size: int) -> bytes:
            given.append(len(rest))
            return self._real.decompress(rest, size)

        def __getattr__(self, name: str):
            return getattr(self._real, name)

    real = zlib.decompressobj
    monkeypatch.setattr(bodies.zlib, "decompressobj", Reader)
    content = random.Random(0).randbytes(4 << 20)
    assert b"".join(decompress(gzip.compress(content), "gzip")) == content
    assert max(given) <= 64 << 10


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"x", "gzip"),
        (gzip.compress(b"x", mtime=0)[:-3], "gzip"),
        (gzip.compress(b"x", mtime=0) + b"y", "gzip"),
        (gzip.compress(b"x", mtime=0) + b"y" * (1 << 20), "gzip"),
        (b"", "gzip"),
        (b"x", "br"),
    ],
    ids=["no stream", "cut", "a byte more", "many more", "empty", "unknown"],
)
def test_what_cannot_be_decompressed_is_refused(body: bytes, encoding: str) -> None:
    with pytest.raises(RequestError):
        list(decompress(body, encoding))
