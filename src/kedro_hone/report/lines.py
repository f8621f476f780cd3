"""Lines of text on a console that is no terminal: unchanged, for logs and for programs that read them."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Final

from rich.console import Console

from hone_runtime.text import clean_text

_TIME: Final = "%H:%M:%S"
_BREAK: Final = re.compile(r"\s*[\r\n]+\s*")
GROUPS: Final = "HONE_LOG_GROUPS"
"""The variable that is ``off`` where GitHub does not interpret commands in the output."""


def write_line(console: Console, text: str, *, at: float | None = None) -> None:
    """Write the time and a text as one line; line breaks in it become bars.

    So a line never begins with ``::``, which would be a command in GitHub's logs.
    """
    write_raw(console, f"{time.strftime(_TIME, time.localtime(at))} {flatten(text)}")


def write_raw(console: Console, line: str) -> None:
    """Write a line to a console's stream without rich, which would wrap, crop or pad it."""
    stream = console.file
    stream.write(f"{line}\n")
    stream.flush()


def flatten(text: str) -> str:
    """Return a text without control characters, in one line."""
    return clean_text(_BREAK.sub(" | ", text.strip()))


def is_github() -> bool:
    """Return whether the output is a log of GitHub Actions, which shows groups but no live display."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def has_groups() -> bool:
    """Return whether GitHub folds the lines of a group: our own Action stops all commands in a run's output."""
    return is_github() and os.environ.get(GROUPS) != "off"


def is_terminal(console: Console) -> bool:
    """Return whether a person reads the stream itself; ``FORCE_COLOR`` makes no terminal of a file."""
    stream: Any = console.file
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and not is_github()
