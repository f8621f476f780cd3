"""The clock of a run's search, the same in every process of the run: when it began, and what does not count."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SHORTEST: Final = 0.5
"""Seconds: a shorter break is not noted."""


@dataclass(frozen=True)
class Clock:
    """Counts the seconds of a search by Linux's monotonic clock, which all processes of a machine share.

    Attributes:
        folder: Where it keeps its files; made when it begins.
    """

    folder: Path

    @property
    def begun(self) -> bool:
        """Whether it runs."""
        return (self.folder / "begun").exists()

    def begin(self) -> None:
        """Start it, unless it runs already."""
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f"begun.{os.getpid()}.{threading.get_ident()}"
        partial.write_text(repr(time.monotonic()))
        with suppress(FileExistsError):
            (self.folder / "begun").hardlink_to(partial)
        partial.unlink()

    @property
    def stopped(self) -> bool:
        """Whether somebody asked for the end of the search."""
        return (self.folder / "stopped").exists()

    def stop(self) -> None:
        """Ask for the end of the search, in every process: what is being built or validated is ended."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "stopped").touch()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Leave out the time that a block takes, such as the installation of an environment."""
        start = time.monotonic()
        try:
            yield
        finally:
            end = time.monotonic()
            if self.begun and end - start >= _SHORTEST:
                with (self.folder / "breaks").open("ab", buffering=0) as stream:
                    stream.write(f"{start!r} {end!r}\n".encode())

    def read(self) -> float:
        """Return the seconds since it began, without what is left out; 0 before it begins."""
        try:
            start = float((self.folder / "begun").read_text())
        except FileNotFoundError:
            return 0.0
        end, seconds = start, 0.0
        for first, last in sorted(self._read_breaks()):
            seconds += max(0.0, first - end)
            end = max(end, last)
        return seconds + max(0.0, time.monotonic() - end)

    def _read_breaks(self) -> Iterator[tuple[float, float]]:
        with suppress(FileNotFoundError):
            for line in (self.folder / "breaks").read_text().splitlines():
                first, last = line.split()
                yield float(first), float(last)
