"""The body of a request over HTTP: received within limits of size and time, and decompressed."""

from __future__ import annotations

import asyncio
import zlib
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from kedro_hone.serving.server.failures import RequestError

_BODY_SECONDS: Final = 60.0
"""How long a client may take to send a request."""
_WINDOWS: Final = {"gzip": 31, "deflate": 15}


async def read_body(received: Request, *, limit: int) -> bytes:
    """Return the body of a request, decompressed.

    Raises:
        RequestError: It is too large, comes too slowly, or has an unknown encoding.
        ClientDisconnect: The client closed the connection.
    """
    declared = received.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _explain_size(limit)
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in received.stream():
                size += len(part)
                if size > limit:
                    raise _explain_size(limit)
                parts.append(part)
    except TimeoutError as error:
        text = f"the request was not complete after {_BODY_SECONDS:.0f} s"
        raise RequestError(text, HTTPStatus.REQUEST_TIMEOUT) from error
    encoding = received.headers.get("content-encoding", "").strip().lower()
    return decompress(b"".join(parts), encoding, limit=limit)


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


def _explain_size(limit: int) -> RequestError:
    return RequestError(f"the request is larger than {limit} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
