from __future__ import annotations

import importlib
from types import MappingProxyType

import pytest
from click.testing import CliRunner
from controls import CONTROLS, find_controls

from kedro_hone.cli.failures import describe_broken
from kedro_hone.core.contract.catalogue import Catalogue

MODULE = importlib.import_module("kedro_hone.cli.toolchains")  # the package has the command of the same name
TRACE = 'File "x.py", line 1\n  rows[/name] = [bold]\nKeyError: "cannot open [/usr/lib/libx.so]"'


@pytest.fixture
def broken(monkeypatch):
    """A catalogue that has nothing but a module that cannot be imported."""
    catalogue = Catalogue(
        adaptors=MappingProxyType({}), toolchains=MappingProxyType({}), broken=MappingProxyType({"shop.fast": TRACE})
    )
    monkeypatch.setattr(MODULE, "read_catalogue", lambda: catalogue)


@pytest.mark.usefixtures("broken")
def test_the_traceback_of_a_broken_module_is_not_read_as_markup():
    done = CliRunner().invoke(MODULE.toolchains, ["list"])

    assert done.exit_code == 0, done.exception
    assert f"broken shop.fast\n{TRACE}\n" in done.stdout


def test_no_control_characters_of_a_traceback_reach_the_terminal():
    text = describe_broken(CONTROLS, CONTROLS).plain

    assert "OWNED" in text
    assert not find_controls(text)
