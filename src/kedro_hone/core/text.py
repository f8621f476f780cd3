"""Text that comes from models, toolchains and registries, on its way to a log, a terminal or a report."""

from __future__ import annotations

import logging


def open_logger(name: str) -> logging.Logger:
    """Return the logger of a module, whose messages are printed as they are.

    What it logs quotes file names and errors of toolchains. Kedro's log handler would read ``[/usr/lib/x.so]`` in them
    as markup of rich, and raise.

    Args:
        name: The module's name.
    """
    logger = logging.getLogger(name)
    # A filter of the logger and not of a handler: it works with any configuration, and in any process that imports the
    # module, such as those of ParallelRunner.
    logger.addFilter(_print_as_it_is)
    return logger


def _print_as_it_is(record: logging.LogRecord) -> bool:
    record.markup = False  # rich.logging.RichHandler asks for it
    return True
