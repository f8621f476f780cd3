"""Sessions in a process that was forked after they were opened: a runtime's threads are not there any more."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from kedro_hone.core.workers.inside.tensors import Arrays


class ForkedSession:
    """A session that is opened again where its process was forked, as gunicorn's ``--preload`` does.

    Args:
        open: Opens a session of the runtime.
        runtime: Its name.
        survives: Whether a session that is opened after the fork works, which its toolchain says.
    """

    def __init__(self, open: Callable[[], Any], *, runtime: str, survives: bool) -> None:  # noqa: A002 - what it does
        self._open, self._runtime, self._survives = open, runtime, survives
        self._opened, self._process = open(), os.getpid()

    def run(self, feeds: Arrays) -> Arrays:
        """Return the outputs by name; see ``find``."""
        if os.getpid() == self._process:
            return self._opened.run(feeds)  # type: ignore[no-any-return]  # of a worker that is imported by its path
        return self.find().run(feeds)  # type: ignore[no-any-return]

    def find(self) -> Any:
        """Return the runtime's own session, which is opened again in another process.

        Raises:
            RuntimeError: The runtime does not work in a process that was forked from one that used it.
        """
        if os.getpid() != self._process:
            if not self._survives:
                raise RuntimeError(
                    f"This process was forked after the model was loaded, and {self._runtime} does not survive that. "
                    "Load it in each process: without gunicorn's --preload, or in its hook post_fork; or let "
                    "multiprocessing spawn processes."
                )
            # To close it would wait for threads that are not in this process.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._opened))
            self._opened, self._process = self._open(), os.getpid()
        return self._opened

    def __getattr__(self, name: str) -> Any:
        """Return what the runtime's own session has."""
        if name.startswith("_"):  # while it is opened, or copied
            raise AttributeError(name)
        return getattr(self.find(), name)
