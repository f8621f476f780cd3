"""The service's log: a JSON object in each line, without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from kedro_hone.core.text import clean_text

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
        rows: Any = [{**common, **details, **common, **trace} for details in given]
        # Each delivery is logged: nearly always there is nothing to clean, which one search of all texts tells.
        texts = "\n".join(_list_texts(rows))
        if clean_text(texts) != texts:
            rows = _clean(rows)
        return "\n".join(map(self._encode, rows))


def _list_texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON value but names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _list_texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _list_texts(each)


def _clean(value: Any) -> Any:
    """Return a JSON value with each of its texts cleaned."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {name: _clean(each) for name, each in value.items()}
    return [*map(_clean, value)] if isinstance(value, list | tuple) else value


def write_to(stream: TextIO) -> None:
    """Send the service's log, and warnings of the server below it, to a stream, and nowhere else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    for name, level in ((_NAME, logging.INFO), ("uvicorn", logging.WARNING), ("kedro_hone", logging.WARNING)):
        logger = logging.getLogger(name)  # the formatter cleans what it logs
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
