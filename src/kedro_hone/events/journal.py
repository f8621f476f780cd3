"""The service's log: a JSON object in each line, without secrets."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from kedro_hone.core.text import clean_text, open_logger

_NAME: Final = "kedro_hone.events"


def log(event: str, *, level: int = logging.INFO, **details: Any) -> None:
    """Write what happened: ``event`` is one of a few words, and the details are its fields."""
    logging.getLogger(_NAME).log(level, event, extra={"details": details})


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: ``time`` (UTC), ``level``, ``event``, and the details."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; what is no JSON in it is text, and secrets are ``***``."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        fields |= getattr(record, "details", {})
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        texts = "\n".join(value for value in fields.values() if isinstance(value, str))
        # Each delivery is logged: nearly always there is nothing to clean, which one search of all texts tells.
        if clean_text(texts) != texts:
            fields = {name: clean_text(value) if isinstance(value, str) else value for name, value in fields.items()}
        return json.dumps(fields, default=lambda value: clean_text(str(value)), ensure_ascii=False)


def write_to(stream: TextIO) -> None:
    """Send the service's log, and warnings of the server below it, to a stream, and nowhere else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    for name, level in ((_NAME, logging.INFO), ("uvicorn", logging.WARNING), ("kedro_hone", logging.WARNING)):
        # What comes below our own name is cleaned by the formatter, once.
        logger = logging.getLogger(name) if name == _NAME else open_logger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
