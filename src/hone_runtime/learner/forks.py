"""Sessions in a process that was forked after they were opened: the runtime's threads do not exist there."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any, Final

from hone_runtime.interfaces.tensors import Arrays
from hone_runtime.sessions.routes import Key, Router, find_run


class ForkedSession(Router):
    """A session that is reopened if its process was forked, for example by gunicorn's ``--preload``.

    Args:
        open: Opens a session of the runtime.
        runtime: The runtime's name.
        survives: Whether a session that is opened after the fork works; declared by the toolchain.
        threads: The session's number of threads. With one thread, it continues even if ``survives`` is False.
    """

    def __init__(self, open: Callable[[], Any], *, runtime: str, survives: bool, threads: int) -> None:  # noqa: A002
        super().__init__()
        self._open, self._runtime, self._survives, self._threads = open, runtime, survives, threads
        self._opened, self._stale = open(), False
        _OPENED.add(self)

    def run(self, feeds: Arrays) -> Arrays:
        """Return the outputs by name.

        Raises:
            RuntimeError: The runtime does not work in a process that was forked from one that used it.
        """
        if self._stale:
            self._find()
        return self._opened.run(feeds)  # type: ignore[no-any-return]  # of a worker, which has no types here

    def find_run(self, key: Key) -> Any:
        """Return the function of the runtime's own session that serves these shapes.

        Raises:
            RuntimeError: As in ``run``.
        """
        return find_run(self._find(), key)

    def _find(self) -> Any:
        """Return the runtime's own session, reopened if this is another process.

        Raises:
            RuntimeError: The runtime does not work in a process that was forked from one that used it.
        """
        if self._stale and (self._survives or self._threads > 1):
            if not self._survives:
                raise RuntimeError(
                    f"This process was forked after the model was loaded, and {self._runtime} does not survive that. "
                    "Load it in each process: without gunicorn's --preload, or in its hook post_fork; or let "
                    "multiprocessing spawn processes. With threads=1 it still works."
                )
            self._opened = self._open()
        self._stale = False
        return self._opened

    def abandon(self) -> None:
        """Drop the session without closing it: closing would wait for threads that do not exist in this process."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._opened))
        self._stale = True
        self.routes.clear()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the runtime's own session."""
        if name.startswith("_"):  # while it is being opened or copied
            raise AttributeError(name)
        return getattr(self._find(), name)


_OPENED: Final[weakref.WeakSet[ForkedSession]] = weakref.WeakSet()
"""The open sessions of this process: a fork copies all of them."""


def _abandon_all() -> None:
    for session in list(_OPENED):
        session.abandon()


os.register_at_fork(after_in_child=_abandon_all)
