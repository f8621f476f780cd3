"""Tests of SIGTERM, which ``test_failures.py`` runs in a process of their own."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from hone_runtime.errors import ExitCode
from kedro_hone.cli import failures
from kedro_hone.cli.failures import explain_failures


@pytest.fixture(autouse=True)
def _restore():
    yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Finalized:
    """The process is told to end while this is finalized."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)  # the signal is handled here, and Python drops what is raised


def test_a_run_that_is_told_to_end_in_a_finalizer_ends(monkeypatch, capsys):
    dropped, lost = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: dropped.append(lost.exc_type.__name__))
    show = sys.unraisablehook
    with pytest.raises(SystemExit) as caught, explain_failures():  # noqa: PT012 - what is raised in the first is lost
        Finalized()
        lost.append(True)
        time.sleep(60)
    assert dropped == []
    assert caught.value.code == ExitCode.TERMINATED
    assert "Terminated; what was built is kept." in capsys.readouterr().err
    assert lost, "what was raised in the finalizer ended nothing"
    assert sys.unraisablehook is show
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN, "a second signal would kill it on its way out"


def test_what_is_closed_after_a_run_was_told_to_end_is_not_disturbed(monkeypatch):
    monkeypatch.setattr(failures, "_AGAIN_SECONDS", 0.01)
    closed = []
    with pytest.raises(SystemExit), explain_failures():  # noqa: PT012 - the order is what is tested
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        finally:
            time.sleep(0.1)
            try:
                {}["missing"]
            except KeyError:
                time.sleep(0.1)
            closed.append(True)
    assert closed == [True]
