"""The service's log: a JSON object in each line, without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from kedro_hone.core.text import clean_text, open_logger

_NAME: Final = "kedro_hone.events"


def log(event: str, *, level: int = logging.INFO, **details: Any) -> None:
    """Write what happened: ``event`` is one of a few words, and the details are its fields."""
    log_each(event, (details,), level=level)


def log_each(event: str, rows: Sequence[Mapping[str, Any]], *, level: int = logging.INFO) -> None:
    """Write that it happened several times, a line for each row of details, for about the price of one ``log``."""
    logging.getLogger(_NAME).log(level, event, extra={"rows": rows})


class JsonFormatter(logging.Formatter):
    """Formats a record as lines of JSON: ``time`` (UTC), ``level``, ``event``, and the details of each of its rows."""

    _encode = json.JSONEncoder(default=lambda value: clean_text(str(value)), ensure_ascii=False).encode

    def format(self, record: logging.LogRecord) -> str:
        """Return a line for each row; what is no JSON in it is text, and secrets are ``***``."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        common = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        trace = {"trace": self.formatException(record.exc_info)} if record.exc_info else {}
        given: Sequence[Mapping[str, Any]] = getattr(record, "rows", ({},))
        rows = [{**common, **details, **trace} for details in given]
        texts = "\n".join(value for row in rows for value in row.values() if isinstance(value, str))
        # Each delivery is logged: nearly always there is nothing to clean, which one search of all texts tells.
        if clean_text(texts) != texts:
            rows = [
                {name: clean_text(each) if isinstance(each, str) else each for name, each in row.items()}
                for row in rows
            ]
        return "\n".join(map(self._encode, rows))


def write_to(stream: TextIO) -> None:
    """Send the service's log, and warnings of the server below it, to a stream, and nowhere else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    for name, level in ((_NAME, logging.INFO), ("uvicorn", logging.WARNING), ("kedro_hone", logging.WARNING)):
        # What comes below our own name is cleaned by the formatter, once.
        logger = logging.getLogger(name) if name == _NAME else open_logger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
