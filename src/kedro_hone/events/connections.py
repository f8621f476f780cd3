"""Connections that wait for a request: none waits for ever, and all of them together do not block new ones.

Uvicorn counts each connection for its limit, and has no limit on how long the head of a request may take: as many
half-open requests as the limit would end the service for everybody else (known as Slowloris).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST: Final = 256
"""Connections at a time; from there on, the one that waits longest makes room for the next."""
MOST_AT_WORK: Final = 2 * MOST
"""Uvicorn's own limit, from which on requests are refused: all are at work, or are just ending."""
HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take, from its first byte, or from the connection on. Its body
is limited by ``body.read_body``."""


class BoundedProtocol(H11Protocol):
    """Uvicorn's protocol with these bounds.

    Attributes:
        waits_since: When its present wait began, by the monotonic clock.
    """

    waits_since = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection, and end the one that has waited longest if there are too many."""
        waiting = [one for one in self.connections if isinstance(one, BoundedProtocol) and not one.is_working]
        if len(self.connections) >= MOST and waiting:
            min(waiting, key=lambda one: one.waits_since).drop()
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read what comes; the time of a head goes on until it is complete."""
        super().data_received(data)
        if self.has_head:
            self._stop()
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop()
        super().connection_lost(exc)

    @property
    def has_head(self) -> bool:
        """Whether the head of the present request was read, and its response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_working(self) -> bool:
        """Whether it has a whole request that is responded to; else it makes room for others."""
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
