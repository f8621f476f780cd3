"""The service's log: a JSON object in each line, without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from hone_runtime.text import PACKAGES, clean_text

_NAME: Final = "kedro_hone.events"


def log(event: str, *, level: int = logging.INFO, **details: Any) -> None:
    """Log an event: its name is one of a fixed set, and the details are its fields."""
    logging.getLogger(_NAME).log(level, event, extra={"details": details})


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: ``time`` (UTC), ``level``, ``event``, and its details."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; values that JSON lacks are written as text, and secrets as ``***``."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        common = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        trace = {"trace": self.formatException(record.exc_info)} if record.exc_info else {}
        fields = {**common, **getattr(record, "details", {}), **common, **trace}
        return json.dumps(_clean(fields), ensure_ascii=False)


def _clean(value: Any) -> Any:
    """Return a JSON value with secrets removed from each of its texts."""
    if isinstance(value, Mapping):
        return {name: _clean(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_clean, value)]
    return value if value is None or isinstance(value, bool | int | float) else clean_text(str(value))


def configure_log(stream: TextIO) -> None:
    """Write the service's log, and warnings of the server and of kedro-hone, to a stream and nowhere else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    levels = {_NAME: logging.INFO, **dict.fromkeys(("uvicorn", *PACKAGES), logging.WARNING)}
    for name, level in levels.items():
        logger = logging.getLogger(name)  # the formatter cleans what it logs
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
