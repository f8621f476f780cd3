"""uvicorn's protocol of HTTP with limits of size and time for the requests of a connection, which it lacks."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 64 << 10
"""The largest request line with headers, in bytes."""
HEAD_SECONDS: Final = 20.0
"""How long a client may take to send them, from the connection or the first byte."""
REQUEST_SECONDS: Final = 90.0
"""How long a client may take to send a whole request, with what may follow its body."""
_FRAMING: Final = 8
"""The bytes around one byte of a body that is sent in chunks, at most."""
_BODIES: Final = frozenset({b"content-length", b"transfer-encoding"})
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: 46\r\n"
    b'connection: close\r\n\r\n{"error":"the headers are larger than 64 KiB"}'
)
_NO_UPGRADE: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 64\r\n"
    b'connection: close\r\n\r\n{"error":"send requests with a body without the header Upgrade"}'
)


class LimitedProtocol(HttpToolsProtocol):
    """Ends a connection whose request has too large a head or trailers, or comes too slowly.

    This also holds for what follows an answer, which uvicorn reads. Bodies have a limit of their own, and those that
    are refused are read and dropped, so that the connection stays open.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bytes: int | None = None  # of the request that is not complete; None between requests
        self._body = self._number = 0
        self._in_head = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, too."""
        super().connection_made(transport)
        self._wait(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._wait(None)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._bytes, self._body, self._in_head = 0, 0, True
        self._number += 1
        self._wait(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """Wait for the rest."""
        self._in_head = False
        self._wait(REQUEST_SECONDS)
        if self.parser.should_upgrade() and any(name in _BODIES for name, _ in self.headers):
            # The parser would take its body for the next request.
            self.transport.write(_NO_UPGRADE)
            self.transport.close()
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count what is of the body."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop counting."""
        self._bytes = None
        self._wait(None)
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Pass data on to the parser, and close the connection if they are too many."""
        before = self._number
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._bytes is None:
            if self._timer is None and not self.cycle_runs():  # what is no request, after an answer
                self._wait(HEAD_SECONDS)
            return
        self._bytes += len(data) if self._number == before else 0  # part of it may be of the request before
        if self._in_head and self._bytes > HEAD_BYTES:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._bytes - self._body > 2 * HEAD_BYTES + _FRAMING * self._body:
            self.transport.close()

    def cycle_runs(self) -> bool:
        """Return whether a request of the connection is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, seconds: float | None) -> None:
        """Close the connection after some seconds, unless this is called again; None waits for nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
