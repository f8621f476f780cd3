"""The log's handler: above the live display on a terminal, and one plain line for each message elsewhere."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kedro.logging import RichHandler

from kedro_hone.hooks.flags import choose_words
from kedro_hone.report.lines import is_terminal, write_line

PASSING: Final = ("launched", "raced")
"""The first words of messages that only report progress: a live display shows the last few of them."""


_OURS: Final = "kedro_hone"
_AT_ONCE: Final = "kedro_hone.core"
"""Its messages are about waiting and building, so they are never held."""


class _Holder(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.held: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_AT_ONCE):
            logging.getLogger().callHandlers(record)
        else:
            self.held.append(record)


@contextmanager
def hold_messages() -> Iterator[None]:
    """Hold our messages while the block checks what a run does again, and would report again.

    They are printed if the block raises an exception, since no run follows then.
    """
    logger, holder = logging.getLogger(_OURS), _Holder()
    passed, logger.propagate = logger.propagate, False
    logger.addHandler(holder)
    try:
        yield
    except BaseException:
        for record in holder.held:
            logging.getLogger().callHandlers(record)
        raise
    finally:
        logger.removeHandler(holder)
        logger.propagate = passed


class LineHandler(RichHandler):
    """Prints the log with rich on a terminal; elsewhere each record is one line, neither wrapped nor padded.

    Programs such as grep read the output of a run without a terminal, so a candidate's name must not be broken.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; in a run of ``kedro-hone optimize`` with flags in place of the recipe's keys."""
        message = record.getMessage()
        if (shown := choose_words()(message)) != message:
            record = copy.copy(record)
            record.msg, record.args = shown, ()
        if is_terminal(self.console):
            super().emit(record)
            return
        try:
            write_line(self.console, self.format(record), at=record.created)
        except Exception:  # noqa: BLE001 - as every handler of logging
            self.handleError(record)


def is_passing(record: logging.LogRecord) -> bool:
    """Return whether a record only reports progress."""
    return record.levelno <= logging.INFO and record.getMessage().startswith(PASSING)
