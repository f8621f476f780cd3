"""Routes: the function that serves each known shape of a session's inputs, for callers that look it up only once.

A call of some ten microseconds is longer by a tenth if it passes through several sessions that choose one another.
Toolchains' workers import it as ``hone_runtime.sessions.routes``. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Key = tuple[tuple[int, ...], ...]
"""The shapes of all inputs, in their order."""


class Router:
    """A session whose calls are served by other sessions.

    Attributes:
        routes: Results of ``find_run``, by their shapes: a cache of the interfaces. It is emptied when a result
            becomes invalid, as in a forked process.
    """

    def __init__(self) -> None:
        """Start without routes."""
        self.routes: dict[Key, Callable[[dict[str, Any]], dict[str, Any]]] = {}

    def find_run(self, key: Key) -> Any:
        """Return the function that serves these shapes of the inputs, from feeds to outputs by name."""
        raise NotImplementedError


def find_run(session: Any, key: Key) -> Any:
    """Return the function of a session that serves these shapes of the inputs."""
    return session.find_run(key) if isinstance(session, Router) else session.run
