"""The clock of a run's search, the same in every process of the run: when it began, and what does not count."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from kedro_hone.core.store.disk import append_line

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_OPEN: Final = "break-"
_SHORTEST: Final = 0.5
"""Seconds: a shorter break is not noted."""


@dataclass(frozen=True)
class Clock:
    """Counts the seconds of a search by Linux's monotonic clock, which all processes of a machine share.

    Where a process of another machine reads what one wrote, as on a cluster, the wall clocks of both are compared: they
    have to agree as well as NTP makes them.

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
        partial.write_text(_write(time.monotonic()))
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
        """Leave out the time that a block takes, such as the installation of an environment.

        Who reads the clock meanwhile, in another thread or process, does not see that time either.
        """
        start = time.monotonic()
        with self._mark(start):
            try:
                yield
            finally:
                end = time.monotonic()
                if self.begun and end - start >= _SHORTEST:
                    append_line(self.folder / "breaks", f"{_write(start)} {_write(end)}")

    @contextmanager
    def _mark(self, start: float) -> Iterator[None]:
        """Hold a locked file that says when a break began; the kernel releases it when the process is killed."""
        if not self.begun:
            yield
            return
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=_OPEN) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(_write(start).encode())
            file.flush()
            yield

    def read(self) -> float:
        """Return the seconds since it began, without what is left out; 0 before it begins."""
        try:
            start = _read(*(self.folder / "begun").read_text().split())
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
                parts = line.split()
                if len(parts) == 6:  # else the disk was full, or it is being written
                    yield _read(*parts[:3]), _read(*parts[3:])
        for path in self.folder.glob(f"{_OPEN}*"):
            with suppress(FileNotFoundError), path.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    parts = file.read().split()
                    if len(parts) == 3:
                        yield _read(*parts), time.monotonic()


def _write(moment: float) -> str:
    """Write a moment of the monotonic clock, with the time of day that it is at its zero and the clock's name."""
    return f"{moment!r} {time.time() - time.monotonic()!r} {_name_clock()}"


def _read(moment: str, zero: str, name: str) -> float:
    """Return a moment that was written, by this machine's monotonic clock."""
    shift = 0.0 if name == _name_clock() else float(zero) - (time.time() - time.monotonic())
    return float(moment) + shift


@lru_cache
def _name_clock() -> str:
    """Return the number that the kernel drew when it started: the monotonic clock counts from there."""
    return _BOOT.read_text().strip()
