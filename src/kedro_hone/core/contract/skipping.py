"""What a registry leaves out of a list since it cannot be read, so that one version does not hide all others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kedro_hone.core.errors import HoneError
from kedro_hone.core.text import clean_text, open_logger

_NAME: Final = "kedro_hone.registries"


def report_skipped(uri: str, error: Exception) -> None:
    """Log that a version was left out of ``Registry.versions_since``, and why.

    Args:
        uri: The version, or the place that was to be looked through.
        error: Why it could not be read.
    """
    known = HoneError.find(error)
    reason = f"{type(error).__name__}: {error}" if known is None else f"{known.what} {known.why}"
    skipped = clean_text(uri), clean_text(reason)
    open_logger(_NAME).warning("%s is left out: %s", *skipped, extra={"skipped": skipped})


@contextmanager
def collect_skipped() -> Iterator[dict[str, str]]:
    """Yield, by their URI, why versions are left out meanwhile, in this thread or in others."""
    found: dict[str, str] = {}

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.update([record.__dict__["skipped"]])

    logger, collector = open_logger(_NAME), Collector()
    logger.addHandler(collector)
    try:
        yield found
    finally:
        logger.removeHandler(collector)
