"""The display of a run's progress: a live block on a terminal, and occasional lines elsewhere."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from hone_runtime.text import clean_line, clean_text
from kedro_hone.report.lines import has_groups, is_terminal, write_line, write_raw

TITLES: Final = {
    "pull": "Pull",
    "build": "Build and validate",
    "race": "Race",
    "confirm": "Confirm",
    "gate": "Gates and report",
    "publish": "Publish",
}
"""The phases of a run in their order, each with its title."""
EVENTS: Final = 3
"""How many events, and how many running nodes, the block shows."""
_WIDE: Final = 120
_SECONDS: Final = 10.0
"""The shortest time between two lines of progress without a terminal."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a run at one moment.

    Attributes:
        phase: A key of ``TITLES``.
        done: How many nodes of the phase ended, and ``total`` how many it has.
        seconds: For how long the run has worked.
        rest: The expected seconds until the verdict; None if unknown.
        most: The most that these may become, if more launches are needed than expected; 0 if that is not known.
        limits: The longest times in words; empty if unknown.
        best: The best candidate so far with its interval; empty if unknown.
        training: The last epoch of the training that runs; empty if none runs.
        running: The names of running nodes, each with its seconds.
        events: The last messages that only report progress.
    """

    phase: str
    done: int
    total: int
    seconds: float
    rest: float | None = None
    most: float = 0.0
    limits: str = ""
    best: str = ""
    training: str = ""
    running: tuple[tuple[str, float], ...] = ()
    events: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The phase and how much of it is done."""
        steps = f", {self.done} of {self.total}" if self.total > 1 else ""
        return f"{TITLES[self.phase]}{steps}"

    @property
    def clock(self) -> str:
        """The time that passed, and the expected rest."""
        if self.rest is None:
            return write_duration(self.seconds)
        return f"{write_duration(self.seconds)}, {self._describe_rest(self.rest)}"

    def _describe_rest(self, rest: float) -> str:
        if self.most < rest + 1:
            return "nearly done" if rest < 1 else f"about {write_duration(rest)} left"
        most = write_duration(self.most)
        return f"up to {most} left" if rest < 1 else f"about {write_duration(rest)} to {most} left"

    @property
    def share(self) -> float:
        """The share of the expected time that passed, from 0 to 1."""
        return 0.0 if self.rest is None else self.seconds / max(self.seconds + self.rest, 1e-9)


class Display(Protocol):
    """Shows snapshots of a run.

    Attributes:
        shows_events: Whether it shows the messages that only report progress, so that the log need not.
    """

    shows_events: bool

    def show(self) -> None:
        """Show the present snapshot, if the last one is old enough."""

    def close(self) -> None:
        """End the display."""


def open_display(console: Console, take: Callable[[], Snapshot]) -> Display:
    """Return a display on a console of the snapshots that a function returns."""
    live = is_terminal(console) and not console.is_dumb_terminal
    return LiveDisplay(console, take) if live else LineDisplay(console, take)


class LiveDisplay:
    """One block at the bottom of a terminal; other output goes above it."""

    shows_events = True

    def __init__(self, console: Console, take: Callable[[], Snapshot]) -> None:
        # Standard output is not replaced: colorama (through DVC) stores the stream that it finds, and at the end writes
        # a reset to it, which rich would print as text.
        block = Block(take)
        self._live = Live(
            block, console=console, transient=True, redirect_stdout=False, redirect_stderr=False, refresh_per_second=5
        )
        self._live.start()

    def show(self) -> None:
        """Draw the block at once; it is also drawn five times a second."""
        self._live.refresh()

    def close(self) -> None:
        """Remove the block."""
        self._live.stop()


class LineDisplay:
    """One line of progress every ten seconds, without control characters; groups in GitHub's logs.

    A thread writes the lines while nothing else happens: a step of minutes has no events.
    """

    shows_events = False

    def __init__(self, console: Console, take: Callable[[], Snapshot], *, seconds: float = _SECONDS) -> None:
        self._console, self._take, self._lock, self._seconds = console, take, threading.Lock(), seconds
        self._groups, self._group, self._next = has_groups(), "", time.monotonic() + seconds
        self._closed = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        self._ticker.start()

    def _tick(self) -> None:
        while not self._closed.wait(self._seconds):
            self.show()

    def show(self) -> None:
        """Write a line if ten seconds have passed since the last one, and begin the group of a new phase."""
        one = self._take()
        with self._lock:  # nodes run in threads
            if self._closed.is_set():
                return
            if self._groups and one.phase != self._group:
                self._end_group()
                write_raw(self._console, f"::group::{TITLES[one.phase]}")
                self._group = one.phase
            if (now := time.monotonic()) >= self._next:
                self._next = now + self._seconds
                parts = filter(None, (one.title, one.clock, one.training, one.best))
                write_line(self._console, f"progress  {clean_line('; '.join(parts))}")

    def close(self) -> None:
        """Write no more lines, and end the group if one is open."""
        self._closed.set()
        with self._lock:
            self._end_group()

    def _end_group(self) -> None:
        if self._group:
            write_raw(self._console, "::endgroup::")
            self._group = ""


class Block:
    """The live block: the phase and the bar, the best so far, running nodes and the last events."""

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self._take, self._spinner = take, Spinner("dots")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one line each, cut to the width of the terminal."""
        one, width = self._take(), options.max_width
        head = Table.grid(padding=(0, 1))
        title, clock = _make_line(one.title, "bold"), _make_line(one.clock, "cyan")
        bar = ProgressBar(completed=100 * one.share, width=max(10, min(40, width // 4)))
        head.add_row(self._spinner, title, bar, clock)
        yield head
        if one.limits:
            yield _make_line(f"  {one.limits}", "dim")
        if one.training:
            yield _make_line(f"  {one.training}", "dim")
        if one.best:
            yield _make_line(f"  {one.best}", "green")
        running = [f"{name}, {write_duration(seconds)}" for name, seconds in one.running[:EVENTS]]
        more = len(one.running) - len(running)
        running += [f"and {more} more"] if more else []
        if width >= _WIDE and running:
            running = ["; ".join(running)]
        for line in (*running, *one.events):
            yield _make_line(f"  {line}", "dim")


def _make_line(text: str, style: str) -> Text:
    return Text(clean_text(text), style=style, no_wrap=True, overflow="ellipsis", end="\n")


def write_duration(seconds: float) -> str:
    """Return a duration such as ``48 s`` or ``3 min 20 s``, for a display that changes every second."""
    if not math.isfinite(seconds):
        return "an unknown time"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest:02d} s" if minutes < 10 else f"{minutes} min"
