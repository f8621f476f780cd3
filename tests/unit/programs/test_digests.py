"""The digests of programs cover what runs, so that a changed file makes new the results that it was part of."""

from __future__ import annotations

import shutil

import pytest

from kedro_hone import programs

BUILT_IN = ("fidelity", "image-classification", "mine.py", "package")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a program of either kind, and a copy of the built-in programs to change."""
    library = tmp_path / "library"
    shutil.copytree(programs.LIBRARY, library, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(programs, "LIBRARY", library)
    (tmp_path / "mine.py").write_text("METRIC = 'mine'\n")
    (tmp_path / "package").mkdir()
    for name in ("__init__.py", "words.txt"):
        (tmp_path / "package" / name).write_text("\n")
    return tmp_path


def digest(project):
    found = {name: programs.find_program(name, project=project).digest for name in BUILT_IN}
    return {**found, "worker": programs.digest_programs()}


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("library/shared/arrays.py", {"fidelity", "image-classification", "mine.py", "package"}),
        ("library/fidelity/__init__.py", {"fidelity", "mine.py", "package"}),  # a user's may import it
        ("library/worker/metrics.py", {"worker"}),
        ("library/__init__.py", set()),  # runs in no worker
        ("mine.py", {"mine.py"}),
        ("package/__init__.py", {"package"}),
        ("package/words.txt", {"package"}),
    ],
)
def test_a_changed_file_changes_the_digests_that_cover_it(project, file, changed):
    before = digest(project)
    with (project / file).open("a") as stream:
        stream.write("# changed\n")
    after = digest(project)
    assert {name for name in before if before[name] != after[name]} == changed


def test_pythons_caches_are_no_part_of_a_digest(project):
    before = digest(project)
    for folder in (project / "package", project / "library" / "shared"):
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "a.pyc").write_bytes(b"cached")
    assert digest(project) == before


def test_a_digest_does_not_depend_on_where_the_project_is(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(project, elsewhere, dirs_exist_ok=True)
    assert digest(elsewhere) == digest(project)
