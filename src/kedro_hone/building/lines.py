"""The line that a step leaves on the console: what became of it, and by which route it came about."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.outcome import Failed, Outcome

WIDTH: Final = 71
"""What a terminal of 80 columns leaves for a line behind the time."""

_LONGEST: Final = 240
"""A reason is cut so that its line has no more characters; the report has all of it."""


def list_route(parent: Artifact, *, source: Artifact) -> tuple[str, ...]:
    """Return the source model's format and the adaptors that made an artifact of it, in order."""
    return (source.format, *(step.adaptor for step in parent.steps if step.outcome == "artifact"))


def say_step(
    word: str, adaptor: str, route: Sequence[str], *, seconds: float | None = None, outcome: Outcome | None = None
) -> str:
    """Return the line of one step; one without a reason fits ``WIDTH``.

    It has what became of it, such as ``built``, and what it was given (from ``list_route``): steps of one adaptor
    differ by that alone. A refusal or a failure says why.
    """
    line = f"{word:<9} {adaptor}" + ("" if seconds is None else f" in {seconds:.1f} s")
    line = f"{line} {say_route(route, room=WIDTH - len(line) - 1)}".rstrip()
    if outcome is None or isinstance(outcome, Artifact):
        return line
    reason = f"{outcome.failure}: {outcome.reason}" if isinstance(outcome, Failed) else outcome.reason
    return f"{line}: {textwrap.shorten(reason, _LONGEST - len(line), placeholder=' …')}"


def say_route(route: Sequence[str], *, room: int) -> str:
    """Return a route in parentheses, in so many characters: without toolchains, or its middle, where it is too long."""
    short = [name.partition(".")[2] or name for name in route]
    ends = [[short[0], "…", *short[-left:]] for left in range(len(short) - 2, 0, -1)]  # what differs is mostly there
    said = (f"({' → '.join(parts)})" for parts in (route, short, *ends, ["…", short[-1]]))
    return next((text for text in said if len(text) <= room), "")
