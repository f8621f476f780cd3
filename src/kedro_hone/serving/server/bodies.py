"""The body of a request over HTTP: received within limits of size and time, and decompressed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from kedro_hone.serving.server.failures import RequestError

_BODY_SECONDS: Final = 60.0
"""How long a client may take to send a request."""
_WINDOWS: Final = {"gzip": 31, "deflate": 15}


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
        _check_size(int(declared) if declared.isascii() and declared.isdigit() else 0, limit)
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for part in received.stream():
                    size += len(part)
                    taken[0] = size
                    self._take(len(part))
                    _check_size(size, limit)
                    parts.append(part)
        except TimeoutError as error:
            text = f"the request was not complete after {_BODY_SECONDS:.0f} s"
            raise RequestError(text, HTTPStatus.REQUEST_TIMEOUT) from error
        encoding = received.headers.get("content-encoding", "").strip().lower()
        if encoding in {"", "identity"}:
            return b"".join(parts)
        taken[0] += limit  # what it may become
        self._take(limit)
        loop = asyncio.get_running_loop()
        body = await loop.run_in_executor(None, partial(decompress, b"".join(parts), encoding, limit=limit))
        given, taken[0] = taken[0], len(body)
        self._used -= given - len(body)
        return body

    def _take(self, size: int) -> None:
        self._used += size
        if self._used > self._limit:
            text = f"the server already has {self._limit >> 20} MiB of requests to answer"
            raise RequestError(text, HTTPStatus.TOO_MANY_REQUESTS)


def decompress(body: bytes, encoding: str, *, limit: int) -> bytes:
    """Return the content of a compressed body.

    Raises:
        RequestError: It cannot be read, or is larger than ``limit`` bytes.
    """
    if encoding in {"", "identity"}:
        return body
    if encoding not in _WINDOWS:
        raise RequestError(f"the content encoding {encoding!r:.40} is not known", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    reader = zlib.decompressobj(_WINDOWS[encoding])
    try:
        found = reader.decompress(body, limit)
    except zlib.error as error:
        raise RequestError(f"the request is not {encoding}: {error}") from error
    if reader.unconsumed_tail:
        raise _explain_size(limit)
    if not reader.eof or reader.unused_data:
        raise RequestError(f"the request is not one whole {encoding} stream")
    return found


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise _explain_size(limit)


def _explain_size(limit: int) -> RequestError:
    return RequestError(f"the request is larger than {limit} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
