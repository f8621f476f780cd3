from __future__ import annotations

import io
import json
import logging

import pytest

from kedro_hone.events.log import configure_log, log


@pytest.fixture
def stream():
    names = ("kedro_hone.events", "uvicorn", "kedro_hone")
    before = [(logging.getLogger(name), list(logging.getLogger(name).handlers)) for name in names]
    stream = io.StringIO()
    configure_log(stream)
    yield stream
    for logger, handlers in before:
        logger.handlers, logger.propagate = handlers, True
        logger.setLevel(logging.NOTSET)


def test_each_line_is_an_object_without_secrets(stream, monkeypatch):
    monkeypatch.setenv("HONE_LISTEN_TOKEN", "a token that nobody sees")
    log("job-ended", job=1, reason="a token that nobody sees\x1b[2J\nsecond line", path=object)
    error = ValueError("a token that nobody sees")
    logging.getLogger("uvicorn.error").error("broken", exc_info=error)
    text = stream.getvalue()
    first, second = map(json.loads, text.splitlines())
    assert (first["event"], first["level"], first["job"]) == ("job-ended", "info", 1)
    assert first["reason"] == "***\ufffd[2J\nsecond line"
    assert (second["event"], second["level"]) == ("broken", "error")
    assert "ValueError" in second["trace"]
    assert "nobody sees" not in text


def test_lists_are_cleaned_too_and_no_detail_replaces_a_common_field(stream, monkeypatch):
    monkeypatch.setenv("HONE_LISTEN_TOKEN", "a token that nobody sees")
    log("started", rules=["fine", "a token that nobody sees"], by={"name": "\x1b[2J"}, time="forged")
    line = json.loads(stream.getvalue())
    assert (line["rules"], line["by"], line["event"]) == (["fine", "***"], {"name": "\ufffd[2J"}, "started")
    assert line["time"] != "forged"
