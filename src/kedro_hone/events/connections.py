"""Connections that wait for a request: none waits for ever, and together they do not block new ones.

Uvicorn counts each connection for its limit, and has no limit on how long the head of a request may take. So as many
half-open requests as the limit would block the service for all other clients (known as Slowloris).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST: Final = 256
"""Connections at a time; beyond this, the one that has waited longest is closed for the next."""
MOST_AT_WORK: Final = 2 * MOST
"""Uvicorn's own limit, at which requests are refused: all connections are working or just ending."""
HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take, from its first byte or from the connection. ``body.read_body`` limits its
body."""


class BoundedProtocol(H11Protocol):
    """Uvicorn's protocol with these limits.

    Attributes:
        waits_since: When its current wait began, by the monotonic clock.
    """

    waits_since = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, and end the one that has waited longest if there are too many."""
        waiting = [one for one in self.connections if isinstance(one, BoundedProtocol) and not one.is_working]
        if len(self.connections) >= MOST and waiting:
            min(waiting, key=lambda one: one.waits_since).drop()
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read data; the time limit of a head applies until the head is complete."""
        super().data_received(data)
        if self.has_head:
            self._stop()
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._stop()
        super().connection_lost(exc)

    @property
    def has_head(self) -> bool:
        """Whether the head of the current request was read, and its response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_working(self) -> bool:
        """Whether it is responding to a complete request; otherwise it may be closed for others."""
        return self.has_head and not self.cycle.more_body

    def drop(self) -> None:
        """End it at once: its sender may connect again."""
        self.connections.discard(self)
        self.transport.abort()

    def _wait(self) -> None:
        self.waits_since = time.monotonic()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.drop)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
