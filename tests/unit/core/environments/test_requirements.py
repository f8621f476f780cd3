from __future__ import annotations

import importlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kedro_hone.core.environments import requirements
from kedro_hone.core.environments.requirements import (
    explain_unsatisfied,
    find_closure,
    list_versions,
    read_lines,
    read_pins,
)


@pytest.fixture
def site(tmp_path):
    """A folder of installed distributions; the returned function installs one."""

    def put(name: str, version: str, *requires: str) -> None:
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")

    return put


@pytest.fixture
def backport():
    """A library has imported importlib_metadata, whose finder is the interpreter's from then on."""
    importlib.import_module("importlib_metadata")


@pytest.fixture
def only(tmp_path, monkeypatch):
    """No other distribution is installed."""
    monkeypatch.setattr(requirements.site, "getsitepackages", lambda: [str(tmp_path)])


def test_lines_have_no_comments_blanks_or_continuations(tmp_path):
    path = tmp_path / "requirements.lock"
    path.write_text("# made by hand\n\nsix==1.16.0 \\\n    --hash=sha256:ab\n  # note\nnumpy>=2  # new\n--pre\n")
    assert read_lines(path) == ("six==1.16.0 --hash=sha256:ab", "numpy>=2", "--pre")
    assert read_pins(path) == ("six==1.16.0", "numpy>=2")


@pytest.mark.usefixtures("only")
def test_versions_are_found_in_any_spelling(site):
    site("Some-Thing", "1.2")
    assert find_closure(["some_thing", "other", "-r more.txt"]) == {"some-thing": "1.2"}


@pytest.mark.usefixtures("only", "backport")
@pytest.mark.parametrize("content", [None, "", "Metadata-Version: 2.1\nName: thing\n"])
def test_what_an_interrupted_removal_has_left_is_not_installed(site, tmp_path, content):
    site("thing", "2.0")
    left = tmp_path / "thing-1.0.dist-info"
    left.mkdir()
    if content is not None:
        (left / "METADATA").write_text(content)
    assert find_closure(["thing"]) == {"thing": "2.0"}
    (tmp_path / "thing-2.0.dist-info" / "METADATA").unlink()
    assert find_closure(["thing"]) == {}


@pytest.mark.usefixtures("backport")
def test_an_environment_that_is_being_removed_has_only_what_is_whole(tmp_path):
    python = tmp_path / "bin" / "python"
    packages = tmp_path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in ("left", "whole"):
        (packages / f"{name}-1.0.dist-info").mkdir(parents=True)
    (packages / "whole-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: whole\nVersion: 1.0\n")
    assert list_versions(python) == {"whole": "1.0"}


def test_only_what_isolated_workers_see_counts(site, tmp_path, monkeypatch):
    site("only-on-pythonpath", "1.0")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_closure(["only-on-pythonpath"]) == {}
    assert find_closure(["pytest"])["pytest"] == pytest.__version__


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("thing", None),
        ("thing>=2,<3", None),
        ("thing==2.0", None),
        ("Thing[extra]>=2", None),
        ("thing>=3", "thing>=3 is needed, and 2.0+cpu is installed"),
        ("other>=1", "other is not installed"),
        ("other; python_version < '3'", None),
        ("other; sys_platform == 'linux'", "other is not installed"),
        ("thing @ file:///x.whl", None),
        ("--index-url x", None),
        ("--pre", None),
        ("-r more.txt", "the line '-r more.txt' is not a requirement: Expected"),
        ("???", "the line '???' is not a requirement: Expected"),
    ],
)
def test_reasons_name_what_is_missing(line, reason):
    found = explain_unsatisfied([line], {"thing": "2.0+cpu"})
    assert found == reason if reason is None else reason in found


def test_a_pre_release_counts():
    assert explain_unsatisfied(["thing>=2"], {"thing": "2.1.0.dev20261001"}) is None


@pytest.mark.usefixtures("only")
def test_the_closure_follows_markers_extras_and_circles(site):
    site("top", "1.0", "middle>=1", "absent", "windows-only; sys_platform == 'win32'", "speed; extra == 'fast'")
    site("middle", "1.1", "top", "bottom")
    site("bottom", "1.2")
    site("windows-only", "1.3")
    site("unrelated", "1.4")
    site("speed", "1.5")
    assert find_closure(["top", "--pre"]) == {"bottom": "1.2", "middle": "1.1", "top": "1.0"}
    assert list(find_closure(["top[fast]"])) == ["bottom", "middle", "speed", "top"]


def test_the_closure_of_this_interpreter_holds_what_runs_the_tests():
    versions = find_closure(["pytest"])
    assert {"pytest", "pluggy"} <= set(versions)


def test_one_thread_parses_at_a_time(monkeypatch):
    """Two at once ended a run with ``SystemError: AST constructor recursion depth mismatch``, once in many."""
    parsing, most, real = [], [], requirements.Requirement

    class Requirement(real):
        def __init__(self, text):
            parsing.append(text)
            time.sleep(0.002)
            most.append(len(parsing))
            super().__init__(text)
            parsing.pop()

    monkeypatch.setattr(requirements, "Requirement", Requirement)
    with ThreadPoolExecutor(4) as pool:
        closures = list(pool.map(find_closure, [["pytest"]] * 4))
    assert len(most) > 10
    assert max(most) == 1
    assert all(found == closures[0] for found in closures)
