"""The recipes that rules change, by digest: what was edited while the service runs makes another run of a version."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kedro_hone.events.journal import log

_FRESH_SECONDS: Final = 1.0
"""How long the configuration is taken to be as it was: deliveries may come by hundreds a second."""


class Recipes(Mapping[str, str]):
    """The digests of the recipes that rules change, by the rules' names; threads may share it.

    They are read again when a file of the configuration was changed. Where that cannot be read, the last ones hold: a
    run would say what is wrong, and no delivery is lost meanwhile.

    Args:
        read: Returns the digests.
        folder: The configuration.

    Raises:
        Exception: What ``read`` raises, the first time.
    """

    def __init__(self, read: Callable[[], Mapping[str, str]], *, folder: Path) -> None:
        self._read, self._folder, self._lock = read, folder, threading.Lock()
        self._stamp, self._digests, self._looked = self._make_stamp(), read(), time.monotonic()

    def __getitem__(self, rule: str) -> str:
        """Return the digest of a rule's recipe."""
        return self._find()[rule]

    def __iter__(self) -> Iterator[str]:
        """Return the rules' names, one by one."""
        return iter(self._find())

    def __len__(self) -> int:
        """Return how many rules there are."""
        return len(self._find())

    def _find(self) -> Mapping[str, str]:
        with self._lock:
            if time.monotonic() - self._looked < _FRESH_SECONDS:
                return self._digests
            self._looked = time.monotonic()
            try:
                if (stamp := self._make_stamp()) != self._stamp:
                    self._stamp = stamp
                    self._digests = self._read()
            except Exception as error:  # noqa: BLE001 - whatever somebody wrote there, no delivery may be lost by it
                reason = getattr(error, "why", "") or f"{type(error).__name__}: {error}"
                log("recipe-invalid", level=logging.WARNING, reason=reason)
            return self._digests

    def _make_stamp(self) -> list[tuple[str, int, int]]:
        found = []
        for path in sorted(self._folder.rglob("*")):
            with suppress(FileNotFoundError):  # such as an editor's, which is gone by now
                told = path.stat()
                found.append((str(path), told.st_size, told.st_mtime_ns))
        return found
