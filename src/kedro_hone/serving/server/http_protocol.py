"""uvicorn's protocol of HTTP with limits of size and time for the head of a request, which it lacks."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 64 << 10
"""The largest request line with headers, in bytes."""
HEAD_SECONDS: Final = 20.0
"""How long a client may take to send them."""
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: 46\r\n"
    b'connection: close\r\n\r\n{"error":"the headers are larger than 64 KiB"}'
)


class LimitedProtocol(HttpToolsProtocol):
    """Ends a connection whose request has too large a head, or sends it too slowly."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, too."""
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._end()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._begin()

    def on_headers_complete(self) -> None:
        """Stop counting: the body has limits of its own."""
        self._end()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Pass data on to the parser, and close the connection if the head is still not complete."""
        super().data_received(data)
        if self._head is None or self.transport.is_closing():
            return
        self._head += len(data)
        if self._head > HEAD_BYTES:
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def _begin(self) -> None:
        self._end()
        self._head = 0
        self._timer = self.loop.call_later(HEAD_SECONDS, self._expire)

    def _end(self) -> None:
        self._head = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
