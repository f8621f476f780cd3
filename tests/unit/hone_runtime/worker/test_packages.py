"""Workers as packages: found by their names, though their folders are on no path."""

from __future__ import annotations

import importlib
import sys

import pytest

from hone_runtime.worker import packages


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    """Forget the packages of a test, and where they are."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]
    sys.modules.update(before)
    for finder in sys.meta_path:
        if isinstance(finder, packages._Finder):
            finder.folders.pop("hone_made_up", None)


def write(folder, text, name="hone_made_up"):
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(text)
    return package


def test_a_package_is_found_by_its_name_and_imported_once(tmp_path):
    package = write(tmp_path, "VALUES = []\n")
    first = packages.import_worker(str(package / "__init__.py"))
    assert packages.import_worker(str(package / "__init__.py")) is first
    assert importlib.import_module("hone_made_up") is first


def test_the_package_of_another_folder_takes_its_place(tmp_path):
    one, other = write(tmp_path / "one", "NAME = 1\n"), write(tmp_path / "other", "NAME = 2\n")
    assert packages.import_worker(str(one / "__init__.py")).NAME == 1
    assert packages.import_worker(str(other / "__init__.py")).NAME == 2


def test_a_folder_with_another_name_takes_no_applications_module(tmp_path, monkeypatch):
    own = type(sys)("worker")
    monkeypatch.setitem(sys.modules, "worker", own)
    with pytest.raises(ImportError, match="a folder named hone_<toolchain>"):
        packages.make_importable(str(write(tmp_path, "", name="worker")))
    assert importlib.import_module("worker") is own
