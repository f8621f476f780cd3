"""The lines that a run prints of its steps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed, Outcome

WIDTH: Final = 71  # what a terminal of 80 columns leaves for a line behind the time
_LONGEST: Final = 240  # characters of a line, whose reason is cut for it; the report has all of it


def say_step(word: str, adaptor: str, route: Sequence[str], outcome: Outcome, *, seconds: float | None = None) -> str:
    """Return the line of one step; one without a reason fits ``WIDTH``, and a refusal or a failure says why.

    It has a word for what became of it, such as ``built``, and the route (the source's format and adaptors) by which
    its input came about: steps of one adaptor differ by that alone.
    """
    line = f"{word:<9} {adaptor}" + ("" if seconds is None else f" in {seconds:.1f} s")
    line = f"{line} {say_route(route, room=WIDTH - len(line) - 1)}".rstrip()
    if isinstance(outcome, Artifact):
        return line
    reason = f"{outcome.failure}: {outcome.reason}" if isinstance(outcome, Failed) else outcome.reason
    return f"{line}: {textwrap.shorten(reason, _LONGEST - len(line), placeholder=' …')}"


def say_route(route: Sequence[str], *, room: int) -> str:
    """Return a route in parentheses, in so many characters: without toolchains, or its middle, where it is too long."""
    short = [name.partition(".")[2] or name for name in route]
    ends = [[short[0], "…", *short[-left:]] for left in range(len(short) - 2, 0, -1)]  # what differs is mostly there
    said = (f"({' → '.join(parts)})" for parts in (route, short, *ends, ["…", short[-1]]))
    return next((text for text in said if len(text) <= room), "")
