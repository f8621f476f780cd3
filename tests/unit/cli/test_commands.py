"""The commands are there by their names, and cost nothing before they are called."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kedro_hone import cli
from kedro_hone.__main__ import main
from kedro_hone.cli import hone, script
from kedro_hone.hooks.runtime import Runtime


def test_each_command_is_found_by_its_name():
    context = click.Context(hone)
    names = hone.list_commands(context)
    assert {"choose", "explain", "listen", "toolchains", "verify"} < set(names)
    assert [getattr(hone.get_command(context, name), "name", None) for name in names] == names
    assert hone.get_command(context, "nothing") is None


def test_the_script_has_every_command_next_to_run():
    names = script.list_commands(click.Context(script))
    assert {"run", "hone", *hone.list_commands(click.Context(hone))} == set(names)
    commands = (script, hone)
    assert len({id(group.get_command(click.Context(group), "routes")) for group in commands}) == 1


def test_the_script_is_installed_with_the_package():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert EntryPoint("kedro-hone", project["scripts"]["kedro-hone"], "console_scripts").load() is main


@pytest.mark.parametrize("words", [("explain", "recipe-invalid"), ("hone", "explain", "recipe-invalid")])
def test_the_script_explains_with_and_without_the_word_hone(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kedro-hone", *words])
    main()
    assert capsys.readouterr().out.startswith("# recipe-invalid")


def test_an_unknown_error_is_answered_with_the_nearest_ones():
    done = CliRunner().invoke(script, ["explain", "recipe-invald"])
    assert done.exit_code == 2
    assert "there is no error 'recipe-invald'. Did you mean recipe-invalid" in done.output
    assert "winner-differs" not in done.output  # not all of them
    assert "under Errors" in CliRunner().invoke(script, ["explain", "zzz"]).output


def test_a_choice_has_the_parameters_of_the_run_that_raced(monkeypatch):
    given = []
    monkeypatch.setattr(cli, "configure", lambda: None)
    monkeypatch.setattr(cli, "read_runtime", lambda _: Runtime({"seed": 1, "hone": {"seed": 7}}, "cheap"))
    monkeypatch.setattr(cli.run, "callback", lambda **options: given.append(options))
    for words in (["choose", "onnx.a"], ["choose", "onnx.a", "--env", "other"]):
        assert CliRunner().invoke(script, words).exit_code == 0
    assert [one["params"] for one in given] == [{"seed": 1, "hone": {"seed": 7, "choose": "onnx.a"}}] * 2
    assert [one["env"] for one in given] == ["cheap", "other"]


def test_their_modules_are_not_imported_before_they_are_called():
    code = "import sys, kedro_hone.cli; print(*(name for name in sys.modules if name.startswith('kedro_hone.cli.')))"
    variables = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, env=variables, capture_output=True, text=True)
    assert done.stdout.split() == ["kedro_hone.cli.failures"]
