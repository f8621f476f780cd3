"""The lines of a step's log."""

from __future__ import annotations


def print_line(text: str) -> None:
    """Write a line at once, so that a person sees how far a training is."""
    print(text, flush=True)  # noqa: T201 - the step's log
