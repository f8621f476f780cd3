"""The digests of the recipes that rules change: an edited recipe leads to another run of the same version."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kedro_hone.events.log import log


class Recipes:
    """Reads the digests again when a file of the configuration has changed; threads may share it.

    If the configuration cannot be read, the last digests are used: the run itself will fail with the reason, and no
    delivery is lost meanwhile.

    Args:
        read: Returns the digests, by the rules' names.
        folder: The folder of the configuration.

    Raises:
        Exception: Whatever ``read`` raises, the first time.
    """

    def __init__(self, read: Callable[[], Mapping[str, str]], *, folder: Path) -> None:
        self._read, self._folder, self._lock = read, folder, threading.Lock()
        self._stamp, self._digests = _stamp_files(folder), read()

    def read(self) -> Mapping[str, str]:
        """Return the current digests, by the rules' names."""
        with self._lock:
            try:
                if (stamp := _stamp_files(self._folder)) != self._stamp:
                    self._stamp = stamp
                    self._digests = self._read()
            except Exception as error:  # noqa: BLE001 - a broken configuration must not lose a delivery
                reason = getattr(error, "why", "") or f"{type(error).__name__}: {error}"
                log("recipe-invalid", level=logging.WARNING, reason=reason)
            return self._digests


def _stamp_files(folder: Path) -> list[tuple[str, int, int]]:
    found = []
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):  # an editor's temporary file may be gone by now
            status = path.stat()
            found.append((str(path), status.st_size, status.st_mtime_ns))
    return found
