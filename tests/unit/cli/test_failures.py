from __future__ import annotations

import os
import signal
import sys
import time
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from controls import CONTROLS, find_controls

from kedro_hone import cli
from kedro_hone.cli import failures
from kedro_hone.cli.failures import _find_disk_error, explain_failures
from kedro_hone.core.errors import ExitCode, HoneError

KNOWN = HoneError("model-unknown", f"There is no {CONTROLS}.", why=CONTROLS, hint="Look.")


@pytest.mark.attack(
    what="escape sequences in an error that ends the run", who="registry", stopped_by="control characters are replaced"
)
@pytest.mark.parametrize(
    ("error", "code"),
    [(KNOWN, ExitCode.INPUT), (ValueError(CONTROLS), ExitCode.BUG), (OSError(CONTROLS), ExitCode.BUG)],
)
def test_no_control_characters_of_an_error_reach_the_terminal(error, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @click.command()
    @explain_failures()
    def fail():
        raise error

    done = CliRunner().invoke(fail, color=True)  # as on a terminal, but for the colour of the whole

    assert done.exit_code == code
    said = done.stderr.removeprefix("\x1b[31m").replace("\x1b[0m\n", "\n")
    assert "OWNED" in said
    assert not find_controls(said)


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
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGALRM)] == [signal.SIG_DFL] * 2


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


@pytest.mark.parametrize("code", [0, None, 11, "a text"])
def test_an_exit_within_a_run_is_no_verdict(code, tmp_path, monkeypatch):
    """As ``sys.exit(0)`` in the code of a plug-in: a pipeline of CI would read it as PASS."""

    def end(**_):
        raise SystemExit(code)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "kedro_run", SimpleNamespace(callback=end))

    done = CliRunner().invoke(click.Command("run", callback=cli._run))

    assert done.exit_code == ExitCode.BUG
    assert f"the run was ended by SystemExit({code!r}), before it had a verdict" in done.stderr


def test_a_disk_error_of_another_process_names_its_own_folder():
    text = "a node failed: OSError: [Errno 30] Read-only file system: '/elsewhere/home/locks/a.lock'"
    known = _find_disk_error(RuntimeError(text))
    assert (known.slug, known.what) == ("store-read-only", "The folder /elsewhere/home/locks cannot be written.")
