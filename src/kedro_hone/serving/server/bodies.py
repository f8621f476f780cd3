"""The body of a request over HTTP: received within limits of size and time, and decompressed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from kedro_hone.serving.server.failures import RequestError

_BODY_SECONDS: Final = 60.0
"""How long a client may take to send a request."""
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""By encoding; both names of gzip are one (RFC 9110, section 8.4.1.3)."""
_PIECE: Final = 64 << 10
"""The number of bytes that are decompressed at once."""


class Receiving:
    """The bytes of all requests that are received or answered, so that many of them do not use up the memory.

    Args:
        limit: The largest number of bytes at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._used = limit, 0

    @asynccontextmanager
    async def read(self, received: Request, *, limit: int) -> AsyncIterator[bytes]:
        """Yield the body of a request, decompressed; its bytes count until the block ends.

        Args:
            received: The request.
            limit: The largest number of its bytes, also after it is decompressed.

        Raises:
            RequestError: It is too large, comes too slowly, or has an unknown encoding; or there are too many.
            ClientDisconnect: The client closed the connection.
        """
        taken = [0]
        try:
            yield await self._receive(received, taken, limit=limit)
        finally:
            self._used -= taken[0]

    async def _receive(self, received: Request, taken: list[int], *, limit: int) -> bytes:
        """Return the body, and note the number of its bytes in ``taken``, also if it is refused."""
        declared = received.headers.get("content-length", "")
        # Cut, since Python refuses to read thousands of digits; what is left is too large by itself.
        _check_size(int(declared[:20]) if declared.isascii() and declared.isdigit() else 0, limit)
        encoding = ", ".join(received.headers.getlist("content-encoding")).strip().lower()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await self._join(received, taken, limit=limit)
                if encoding in {"", "identity"}:
                    return body
                return await self._decompress(body, taken, encoding=encoding, limit=limit)
        except TimeoutError as error:
            text = f"the request was not complete after {_BODY_SECONDS:.0f} s"
            raise RequestError(text, HTTPStatus.REQUEST_TIMEOUT) from error

    async def _join(self, received: Request, taken: list[int], *, limit: int) -> bytes:
        """Return the bytes of a request as they were sent."""
        parts, size = list[bytes](), 0
        async for part in received.stream():
            size += len(part)
            taken[0] = size
            self._take(len(part))
            _check_size(size, limit)
            parts.append(part)
        return b"".join(parts)

    async def _decompress(self, body: bytes, taken: list[int], *, encoding: str, limit: int) -> bytes:
        """Return the content of a compressed body, and count its bytes in place of those that were received."""
        pieces, loop = decompress(body, encoding), asyncio.get_running_loop()
        made, size = list[bytes](), 0
        while (piece := await loop.run_in_executor(None, next, pieces, None)) is not None:
            size += len(piece)
            taken[0] += len(piece)
            self._take(len(piece))
            _check_size(size, limit)
            made.append(piece)
        taken[0] -= len(body)
        self._used -= len(body)
        return b"".join(made)

    def _take(self, size: int) -> None:
        self._used += size
        if self._used > self._limit:
            text = f"the server already has {self._limit >> 20} MiB of requests to answer"
            raise RequestError(text, HTTPStatus.TOO_MANY_REQUESTS)


def decompress(body: bytes, encoding: str) -> Iterator[bytes]:
    """Yield the content of a compressed body in pieces of at most 64 KiB, each decompressed when it is requested.

    A piece may be empty: each is made of at most 64 KiB of the body, so that none takes long.

    Raises:
        RequestError: The encoding is not known, or the body is not one whole stream of it.
    """
    if encoding not in _WINDOWS:
        raise RequestError(f"the content encoding {encoding!r:.40} is not known", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    reader, read = zlib.decompressobj(_WINDOWS[encoding]), 0
    try:
        while read < len(body) and not reader.eof:
            rest = body[read : read + _PIECE]  # slices: zlib copies what it has not read at each call
            read += len(rest)
            piece = None
            while piece is None or rest or len(piece) == _PIECE:
                piece = reader.decompress(rest, _PIECE)
                rest = reader.unconsumed_tail
                yield piece
    except zlib.error as error:
        raise RequestError(f"the request is not {encoding}: {error}") from error
    if not reader.eof or reader.unused_data or read < len(body):
        raise RequestError(f"the request is not one whole {encoding} stream")


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise RequestError(f"the request is larger than {limit} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
