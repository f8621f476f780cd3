"""The commands are there by their names, and cost nothing before they are called."""

from __future__ import annotations

import subprocess
import sys

import click

from kedro_hone.cli import hone


def test_each_command_is_found_by_its_name():
    context = click.Context(hone)
    names = hone.list_commands(context)
    assert {"choose", "explain", "listen", "toolchains", "verify"} < set(names)
    assert [getattr(hone.get_command(context, name), "name", None) for name in names] == names
    assert hone.get_command(context, "nothing") is None


def test_their_modules_are_not_imported_before_they_are_called():
    code = "import sys, kedro_hone.cli; print(*(name for name in sys.modules if name.startswith('kedro_hone.cli.')))"
    variables = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, env=variables, capture_output=True, text=True)
    assert done.stdout.split() == ["kedro_hone.cli.failures"]
