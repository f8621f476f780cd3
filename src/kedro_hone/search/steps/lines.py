"""The lines that a run prints about its steps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed, Outcome

WIDTH: Final = 71  # the columns after the time on a terminal with 80 columns
_LONGEST: Final = 240  # the most characters of a line: its reason is cut; the report has the full reason


def format_step(
    word: str, adaptor: str, route: Sequence[str], outcome: Outcome, *, seconds: float | None = None
) -> str:
    """Return the line of one step; without a reason it fits ``WIDTH``; a refusal or a failure has a reason.

    It contains a word for the outcome, such as ``built``, and the route of its input (the source's format and
    adaptors): steps of one adaptor only differ by the route.
    """
    line = f"{word:<9} {adaptor}" + ("" if seconds is None else f" in {seconds:.1f} s")
    line = f"{line} {shorten_route(route, room=WIDTH - len(line) - 1)}".rstrip()
    if isinstance(outcome, Artifact):
        return line
    reason = f"{outcome.failure}: {outcome.reason}" if isinstance(outcome, Failed) else outcome.reason
    return f"{line}: {textwrap.shorten(reason, _LONGEST - len(line), placeholder=' …')}"


def shorten_route(route: Sequence[str], *, room: int) -> str:
    """Return a route in parentheses, in ``room`` characters: if too long, without toolchains, or without its middle."""
    short = [name.partition(".")[2] or name for name in route]
    ends = [[short[0], "…", *short[-left:]] for left in range(len(short) - 2, 0, -1)]  # differences are mostly there
    forms = (f"({' → '.join(parts)})" for parts in (route, short, *ends, ["…", short[-1]]))
    return next((text for text in forms if len(text) <= room), "")
