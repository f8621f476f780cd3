from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from controls import CONTROLS, find_controls

from hone_runtime.errors import ExitCode, HoneError, combine
from kedro_hone import cli
from kedro_hone.cli.failures import _find_disk_error, explain_failures
from kedro_hone.hooks.flags import translate_keys

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


@pytest.mark.attack(
    what="a name of a column with line breaks, which forges a log or is a command of GitHub's",
    who="data",
    stopped_by="a line break in an error is printed as its escape",
)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\n        "])
@pytest.mark.parametrize(
    "make",
    [
        lambda name: HoneError("column-unknown", f"There is no {name}.", why=f"It has {name}.", hint=f"Name {name}."),
        lambda name: combine(
            [HoneError("column-unknown", f"{place}{name}.", why=name, hint=name) for place in ("a", "b")]
        ),
        lambda name: HoneError.find(OSError(f"{HoneError('column-unknown', name, why=[name, name], hint=name)}")),
        lambda name: pickle.loads(  # noqa: S301 - as parallel runners do
            pickle.dumps(HoneError("column-unknown", name, why=[name, name], hint=name))
        ),
        ValueError,
    ],
)
def test_no_name_begins_a_line_of_its_own(make, end, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = make(f"age{end}::error file=a.py::owned")

    @click.command()
    @explain_failures()
    def fail():
        with translate_keys():
            raise error

    said = CliRunner().invoke(fail).stderr

    assert "::error" in said
    assert not [line for line in said.splitlines() if line.lstrip().startswith("::")]


def test_who_is_told_to_end_ends_wherever_it_is(tmp_path):
    """In a process of its own: one that has loaded a toolchain may not survive a signal."""
    tests = Path(__file__).with_name("terminations.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("code", [0, None, 11, "a text"])
def test_an_exit_within_a_run_is_no_verdict(code, tmp_path, monkeypatch):
    """As ``sys.exit(0)`` in the code of a plug-in: a pipeline of CI would read it as PASS."""

    def end(**_):
        raise SystemExit(code)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "kedro_run", SimpleNamespace(callback=end))

    done = CliRunner().invoke(click.Command("run", callback=cli.run.callback))

    assert done.exit_code == ExitCode.BUG
    assert f"the run was ended by SystemExit({code!r}), before it had a verdict" in done.stderr


def test_a_reader_that_went_away_is_no_bug(tmp_path):
    """As in ``kedro hone toolchains --capabilities onnxruntime | head -1``."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "kedro_hone", "hone", "toolchains", "--capabilities", "onnxruntime"]
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False, timeout=600
        )

    assert (done.returncode, done.stderr) == (1, "")


def test_another_broken_pipe_is_a_bug(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop, explain_failures():
        raise BrokenPipeError
    assert stop.value.code == ExitCode.BUG


def test_a_disk_error_of_another_process_names_its_own_folder():
    text = "a node failed: OSError: [Errno 30] Read-only file system: '/elsewhere/home/locks/a.lock'"
    known = _find_disk_error(RuntimeError(text))
    assert (known.slug, known.what) == ("store-read-only", "The folder /elsewhere/home/locks cannot be written.")
