from __future__ import annotations

import dataclasses
import os
import re
import time

import pytest
from click.testing import CliRunner
from controls import CONTROLS, find_controls

from hone_runtime.contract.catalogue import Catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from kedro_hone.cli import plugins
from kedro_hone.cli.toolchain_builds import build_all
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.serving.environment import SERVER

TRACE = 'File "x.py", line 1\n  rows[/name] = [bold]\nKeyError: "cannot open [/usr/lib/libx.so]"'


@pytest.fixture
def list_broken(monkeypatch):
    """Lists a catalogue that has nothing but a module that cannot be imported."""

    def invoke(place, text):
        catalogue = Catalogue(adaptors={}, toolchains={}, broken={place: ImportError(text)})
        monkeypatch.setattr(plugins, "read_catalogue", lambda: catalogue)
        return CliRunner().invoke(plugins.toolchains, ["list"])

    return invoke


def test_the_traceback_of_a_broken_module_is_not_read_as_markup(list_broken):
    done = list_broken("shop.fast", TRACE)

    assert done.exit_code == 0, done.exception
    assert f"broken shop.fast\nImportError: {TRACE}\n" in done.stdout


def test_no_control_characters_of_a_traceback_reach_the_terminal(list_broken):
    said = list_broken(CONTROLS, CONTROLS).stdout

    assert "OWNED" in said
    assert not find_controls(said)


def test_no_log_is_named_where_nothing_was_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HONE_INSTALLER", "conda")
    (tmp_path / "requirements.in").write_text("no-such-package")
    (tmp_path / "requirements.lock").write_text("no-such-package==1.0\n")

    with pytest.raises(HoneError, match="toolchain-unbuildable") as caught:
        build_all([Toolchain(name="tool", folder=tmp_path)])

    assert caught.value.why == "HONE_INSTALLER is 'conda'; it can be pip or uv"
    assert "None" not in caught.value.hint


@pytest.mark.parametrize("name", ["tensorrt", "torch_tensorrt", "onnxruntime_gpu"])
def test_a_toolchain_for_gpus_is_neither_built_nor_looked_for_without_one(tmp_path, monkeypatch, name):
    host = dataclasses.replace(read_host(), gpu=None)
    monkeypatch.setattr(plugins, "read_host", lambda: host)
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))

    refused = CliRunner().invoke(plugins.toolchains, ["build", name])
    looked = CliRunner().invoke(plugins.toolchains, ["test", name])

    assert isinstance(refused.exception, HoneError)
    assert refused.exception.slug == "toolchain-unbuildable"
    assert refused.exception.why == "The toolchain needs a GPU, and this machine has none."
    assert looked.output.split(maxsplit=1) == [name, "needs a GPU, and this machine has none\n"]
    assert not (tmp_path / "home").exists()


def test_what_package_indexes_lack_is_left_out_of_all_that_are_built(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    (tmp_path / "requirements.in").write_text("no-such-package")
    tool = Toolchain(name="tool", folder=tmp_path, lockable=False, default=False)
    catalogue = Catalogue(adaptors={}, toolchains={"tool": tool}, broken={})
    monkeypatch.setattr(plugins, "read_catalogue", lambda: catalogue)

    every = CliRunner().invoke(plugins.toolchains, ["build", "--all"])
    refused = CliRunner().invoke(plugins.toolchains, ["build", "tool"])
    looked = CliRunner().invoke(plugins.toolchains, ["test", "tool"])

    assert every.exit_code == 0, every.exception
    assert every.output.startswith("tool               left out: it works only in an interpreter that a recipe names")
    assert refused.exception.slug == "toolchain-unbuildable"
    assert "name an interpreter in hone.environments" in refused.exception.hint
    assert "hone: {environments: {tool: {python: /path/to/python}}}" in looked.output
    assert not (tmp_path / "home").exists()


def test_the_list_fits_a_narrow_terminal_and_cuts_no_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")

    printed = CliRunner().invoke(plugins.toolchains).output

    table, after = printed.rsplit("┘", 1)
    assert max(map(len, table.splitlines())) == 80
    assert "int8-accuracy-control" in table
    assert re.search(r"│ tvm +│ open +│ none +│ cpu +│", table)
    assert "`kedro-hone toolchains test NAME` prints the reason" in after


def test_the_servers_environment_is_listed_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    store = EnvironmentStore()
    python = store.locate(SERVER) / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    key = store.locate(SERVER).name
    made = Environment(toolchain="kserve", key=key, python=str(python), own=True, lock_digest="sha256:0", versions={})
    record = store.locate(SERVER) / "record.json"
    record.write_text(made.model_dump_json())
    old = time.time() - 5 * 86_400
    os.utime(record, (old, old))

    assert CliRunner().invoke(plugins.toolchains, ["gc"]).stdout == ""
    assert record.exists()
    said = CliRunner().invoke(plugins.toolchains, ["test", "kserve"]).stdout
    assert said.split() == ["kserve", "its", "own,", "built"]
    assert "kserve" in CliRunner().invoke(plugins.toolchains, ["list"]).stdout
