"""Messages that are held while a command checks what its run does again."""

from __future__ import annotations

import logging

import pytest

from hone_runtime.text import open_logger
from kedro_hone.hooks.lines import hold_messages

PULL, LOCKS = open_logger("kedro_hone.nodes.pull"), open_logger("kedro_hone.core.locks")


@pytest.fixture(autouse=True)
def level(caplog):
    caplog.set_level(logging.INFO, logger="kedro_hone")


def test_what_the_run_says_again_is_said_once(caplog):
    with hold_messages():
        PULL.info("pulled    models:/forecaster/1")
    PULL.info("pulled    models:/forecaster/1")
    assert caplog.messages == ["pulled    models:/forecaster/1"]


def test_a_wait_is_said_at_once(caplog):
    with hold_messages():
        LOCKS.warning("Waiting for the device.")
        assert caplog.messages == ["Waiting for the device."]


def test_where_no_run_follows_nothing_is_lost(caplog):
    def check():
        with hold_messages():
            PULL.warning("warning   the model has no tokenizer")
            raise ValueError("no rows")

    with pytest.raises(ValueError, match="no rows"):
        check()
    assert caplog.messages == ["warning   the model has no tokenizer"]
    assert logging.getLogger("kedro_hone").propagate
