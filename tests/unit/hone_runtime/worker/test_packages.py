"""Workers as packages: found by their names, though their folders are on no path."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
import threading

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


def test_a_package_of_the_users_program_stays_as_it_is(tmp_path, monkeypatch):
    own = type(sys)("hone_made_up")
    own.__file__ = "/app/hone_made_up.py"
    monkeypatch.setitem(sys.modules, "hone_made_up", own)
    with pytest.raises(ImportError, match=r"from /app/hone_made_up\.py: rename it"):
        packages.import_worker(str(write(tmp_path, "") / "__init__.py"))
    assert importlib.import_module("hone_made_up") is own


def test_an_installed_package_of_the_name_is_not_found_first(tmp_path, monkeypatch):
    installed, ours = write(tmp_path / "installed", "NAME = 1\n"), write(tmp_path / "ours", "NAME = 2\n")
    monkeypatch.syspath_prepend(installed.parent)
    assert packages.import_worker(str(ours / "__init__.py")).NAME == 2


def test_a_process_forked_during_an_import_can_import(tmp_path):
    package = write(tmp_path, "NAME = 1\n")
    taken, over = threading.Event(), threading.Event()

    def occupy():
        with packages._IMPORTING:
            taken.set()
            over.wait(60)

    thread = threading.Thread(target=occupy)
    thread.start()
    taken.wait(60)
    child = multiprocessing.get_context("fork").Process(
        target=packages.import_worker, args=(str(package / "__init__.py"),)
    )
    child.start()
    child.join(20)
    ended = child.exitcode
    child.kill()
    over.set()
    thread.join()
    assert ended == 0
