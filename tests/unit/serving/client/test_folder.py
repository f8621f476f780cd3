from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from served_interfaces import INTERFACES, NASTY, make_winner

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.serving.client.folder import list_client_files, write_client
from kedro_hone.serving.client.interface import make_interface
from kedro_hone.serving.client.shipped.tensors import InterfaceError

NET = (TensorSpec(name="x", dtype="float32", shape=("batch", 3)),)


@pytest.mark.parametrize("case", INTERFACES)
def test_the_same_version_gives_the_same_files(case: str, tmp_path: Path) -> None:
    inputs, outputs = INTERFACES[case]
    interface = make_interface(make_winner(inputs, outputs, name="net"))
    assert list_client_files(interface) == list_client_files(make_interface(make_winner(inputs, outputs, name="net")))
    write_client(interface, tmp_path / "client")
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(tmp_path / "client")], check=True)


def test_a_name_can_not_become_code(tmp_path: Path) -> None:
    specs = tuple(TensorSpec(name=f"{name}{number}", dtype="str", shape=(name,)) for number, name in enumerate(NASTY))
    files = list_client_files(make_interface(make_winner(specs, specs, name="net")))
    for path, text in files.items():
        assert "\nplanted" not in text
        trees = list(ast.walk(ast.parse(text))) if path.suffix == ".py" else []
        assert not [one for one in trees if isinstance(one, ast.Name) and one.id == "planted"]
    tree = ast.parse(files[next(path for path in files if path.name == "client.py")])
    names = [node.value.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "name"]
    assert names == [spec.name for spec in (*specs, *specs)]


def test_the_package_checks_arrays_before_it_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_client(make_interface(make_winner(NET, NET, name="checked")), tmp_path / "client")
    monkeypatch.syspath_prepend(str(tmp_path / "client"))
    client = importlib.import_module("checked_client.client")
    made = client.CheckedClient.__new__(client.CheckedClient)  # without a connection
    with pytest.raises(importlib.import_module("checked_client").InterfaceError, match="float64"):
        made.infer(x=np.zeros((1, 3)))
    assert issubclass(InterfaceError, ValueError)


def test_an_empty_folder_is_filled_and_another_one_is_left(tmp_path: Path) -> None:
    interface = make_interface(make_winner(NET, NET, name="net"))
    (tmp_path / "empty").mkdir()
    write_client(interface, tmp_path / "empty")
    assert (tmp_path / "empty" / "net_client" / "py.typed").exists()
    for place in ("empty", "file", "link"):
        if place == "file":
            (tmp_path / place).write_text("mine")
        if place == "link":
            (tmp_path / place).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(HoneError) as refused:
            write_client(interface, tmp_path / place)
        assert refused.value.slug == "option-invalid"
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "link"]


def test_nothing_is_left_if_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="full"):
        write_client(make_interface(make_winner(NET, NET, name="net")), tmp_path / "client")
    assert list(tmp_path.iterdir()) == []
