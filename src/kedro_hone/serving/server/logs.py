"""The log of the server: a line on standard error for the start, the stop and each error."""

from __future__ import annotations

import logging
import sys
from typing import Final

from hone_runtime.text import clean_line

_LOG: Final = logging.getLogger("kedro_hone.serving")


def configure_logs() -> None:
    """Write the server's lines to standard error; of the libraries it uses, errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR)
    _LOG.setLevel(logging.INFO)
    logging.getLogger("grpc").setLevel(logging.CRITICAL)  # it writes a traceback for each message that is none
    logging.captureWarnings(capture=True)  # such as that a winner's outputs differ
    logging.getLogger("py.warnings").setLevel(logging.WARNING)


def log(message: str, *, warning: bool = False, error: BaseException | None = None) -> None:
    """Write a line, without secrets and control characters.

    Args:
        message: A sentence without its full stop.
        warning: Whether it is a warning.
        error: The exception; its traceback follows.
    """
    level = logging.ERROR if error is not None else logging.WARNING if warning else logging.INFO
    _LOG.log(level, "%s", clean_line(message), exc_info=error)
