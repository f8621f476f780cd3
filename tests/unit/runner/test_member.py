"""What a Dask worker says of itself, and where it runs a node."""

from __future__ import annotations

import importlib
import pickle
import shutil
import sys
from pathlib import Path

import pytest

from hone_runtime.contract.hardware import read_host
from hone_runtime.text import PACKAGES
from kedro_hone.runner.member import (
    ANSWERS,
    HostRequirement,
    MisplacedError,
    Setup,
    digest_code,
    identify_machine,
    introduce,
    run_node,
)


@pytest.fixture
def setup(tmp_path):
    folder = tmp_path / "runs" / "r"
    (folder / ANSWERS).mkdir(parents=True)
    (folder / ANSWERS / "mark").touch()
    return Setup(project=tmp_path, package="kedro_hone", folder=folder, mark="mark")


def test_a_worker_says_what_it_is(setup):
    facts = introduce(setup)
    assert facts.shared
    assert (facts.host, facts.machine) == (read_host(), identify_machine())
    assert facts.code == digest_code("kedro_hone")
    assert len([*(setup.folder / ANSWERS).iterdir()]) == 2


def test_a_worker_elsewhere_does_not_see_the_run(setup):
    (setup.folder / ANSWERS / "mark").unlink()
    assert not introduce(setup).shared


def test_the_digest_of_the_code_is_that_of_the_project_too(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "some_shop_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    before = digest_code(package.name)
    (package / "adaptors.py").write_text("ADAPTORS = []\n")
    assert digest_code(package.name) != before
    (package / "adaptors.py").rename(package / "notes.txt")
    assert digest_code(package.name) == before
    del sys.modules[package.name]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_digest_of_the_code_covers_each_of_our_packages(tmp_path, monkeypatch, package):
    copy = tmp_path / package
    shutil.copytree(Path(str(importlib.import_module(package).__file__)).parent, copy)
    monkeypatch.setattr(sys.modules[package], "__file__", str(copy / "__init__.py"))
    before = digest_code("kedro_hone")
    for changed in ("digest.py", "capabilities.yml", "requirements.lock"):
        if found := sorted(copy.rglob(changed)):
            found[0].write_text(found[0].read_text() + "\n")
            before, last = digest_code("kedro_hone"), before
            assert before != last, found[0]
    assert len(before) > 64


@pytest.mark.parametrize("change", [{"fingerprint": "other"}, {"code": "old"}, {"machine": "other"}])
def test_a_node_does_not_run_in_a_wrong_place(setup, change):
    place = {"fingerprint": read_host().fingerprint, "code": digest_code("kedro_hone"), "machine": None}
    with pytest.raises(MisplacedError):
        run_node(pickle.dumps((print, (), {})), setup, HostRequirement(**{**place, **change}))
