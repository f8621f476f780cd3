"""Streams: how many calls of a model are computed at once, each with an equal share of the threads.

Toolchains' workers import it as ``hone_runtime.sessions.streams``. Standard library only.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Mapping
from typing import Any, Literal

MOST_STREAMS = 256
"""The most streams of a model."""


def find_streams(options: Mapping[str, Any]) -> int | Literal["auto"] | None:
    """Return how many streams the run options of a model set: ``auto`` if the runtime chooses, None if they set none.

    ONNX Runtime and LiteRT are opened with ``streams``, OpenVINO with properties. Options of an untrusted manifest are
    limited to 1 to ``MOST_STREAMS``.
    """
    for name in ("NUM_STREAMS", "streams"):
        if isinstance(number := options.get(name), int):
            return max(1, min(number, MOST_STREAMS))
    return "auto" if options.get("PERFORMANCE_HINT") == "THROUGHPUT" else None


def share_threads(threads: int, streams: int) -> tuple[int, int]:
    """Return how many streams there are, at most one for each thread, and how many threads each has."""
    count = max(1, min(streams, threads))
    return count, threads // count


class Pool:
    """Things that serve one call at a time each; a call waits while all are in use."""

    def __init__(self, members: Iterable[Any]) -> None:
        """Store the members, at least one; one that may serve several calls at once may be among them repeatedly."""
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for member in members:
            self._free.put(member)

    def take(self) -> Any:
        """Return a free member, which serves no other call until it is given back."""
        return self._free.get()

    def give(self, member: Any) -> None:
        """Give a member back."""
        self._free.put(member)


class PooledSession:
    """Sessions of one model for several calls at once; everything but calls is done by the first one."""

    def __init__(self, sessions: list[Any]) -> None:
        """Store the sessions, at least one, as in ``Pool``."""
        self._first, self._pool = sessions[0], Pool(sessions)

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Return every output by name, for inputs by name."""
        member = self._pool.take()
        try:
            return member.run(feeds)  # type: ignore[no-any-return]  # a session has no types
        finally:
            self._pool.give(member)

    def __getattr__(self, name: str) -> Any:
        """Return what the first session has by this name, such as ``start`` or ``count_operators``."""
        return getattr(self._first, name)
