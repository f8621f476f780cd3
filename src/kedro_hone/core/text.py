"""Text that comes from models, toolchains and registries, on its way to a log, a terminal or a report."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""C0 without tab and newline, DEL, C1, and what changes the direction of text (UAX 9)."""

_USERS: Final = re.compile(r"(\w+://)[^/\s]+@")


def clean_text(text: str) -> str:
    """Return a text that a terminal or a page shows as it is: each control character becomes U+FFFD.

    Names of models, errors of toolchains and URIs of registries may hold any character: escape sequences, which move
    the cursor, set the title or hide what follows, and marks that turn the direction of reading.
    """
    return _CONTROLS.sub("\ufffd", text)


def hide_secrets(text: str) -> str:
    """Return a text in which URLs have lost their user and password."""
    return _USERS.sub(r"\1***@", text)


def suggest(name: str, known: Iterable[str], shown: str = "{!r}") -> str:
    """Return ``Did you mean 'fast'? `` with the nearest known name, for a hint that may go on; else nothing."""
    nearest = difflib.get_close_matches(name, sorted(known), n=1)
    return f"Did you mean {shown.format(nearest[0])}? " if nearest else ""


def open_logger(name: str) -> logging.Logger:
    """Return the logger of a module, whose messages are printed as they are.

    What it logs quotes file names and errors of toolchains. Kedro's log handler would read ``[/usr/lib/x.so]`` in them
    as markup of rich, and raise. Control characters are replaced as ``clean_text`` does.
    """
    logger = logging.getLogger(name)
    # A filter of the logger and not of a handler: it works with any configuration, and in any process that imports the
    # module, such as those of ParallelRunner.
    logger.addFilter(_print_as_it_is)
    return logger


def _print_as_it_is(record: logging.LogRecord) -> bool:
    record.markup = False  # rich.logging.RichHandler asks for it
    message = record.getMessage()
    cleaned = clean_text(message)
    if cleaned != message:
        record.msg, record.args = cleaned, ()
    return True
