"""Sessions in a process that was forked after they were opened: a runtime's threads are not there any more."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any, Final

from hone_runtime.interfaces.tensors import Arrays


class ForkedSession:
    """A session that is opened again where its process was forked, as gunicorn's ``--preload`` does.

    Args:
        open: Opens a session of the runtime.
        runtime: Its name.
        survives: Whether a session that is opened after the fork works, which its toolchain says.
        threads: How many threads it has. With one, it goes on as it is where another would not work.
    """

    def __init__(self, open: Callable[[], Any], *, runtime: str, survives: bool, threads: int) -> None:  # noqa: A002
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
        return self._opened.run(feeds)  # type: ignore[no-any-return]  # of a worker that is imported by its path

    def _find(self) -> Any:
        """Return the runtime's own session, which is opened again in another process.

        Raises:
            RuntimeError: The runtime does not work in a process that was forked from one that used it.
        """
        if self._stale and (self._survives or self._threads > 1):
            if not self._survives:
                raise RuntimeError(
                    f"This process was forked after the model was loaded, and {self._runtime} does not survive that. "
                    "Load it in each process: without gunicorn's --preload, or in its hook post_fork; or let "
                    "multiprocessing spawn processes. With threads=1 it goes on."
                )
            self._opened = self._open()
        self._stale = False
        return self._opened

    def abandon(self) -> None:
        """Leave the session to the process whose it is: to close it would wait for threads that are not in this one."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._opened))
        self._stale = True

    def __getattr__(self, name: str) -> Any:
        """Return what the runtime's own session has."""
        if name.startswith("_"):  # while it is opened, or copied
            raise AttributeError(name)
        return getattr(self._find(), name)


_OPENED: Final[weakref.WeakSet[ForkedSession]] = weakref.WeakSet()
"""What is open in this process: a fork is of the whole process."""


def _abandon_all() -> None:
    for session in list(_OPENED):
        session.abandon()


os.register_at_fork(after_in_child=_abandon_all)
