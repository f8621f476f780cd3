from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kedro_hone
from hone_runtime.errors import SLUGS, HoneError, read_page


@pytest.mark.parametrize("slug", SLUGS)
def test_an_error_is_read_back_from_its_text(slug):
    error = HoneError(slug, "It failed.", why="Line one.\nLine two.", hint="Do this.")
    found = HoneError.find(OSError(f"Failed while loading gate:\n{error}\n(in a process)"))
    assert (found.slug, found.why, found.hint) == (slug, error.why, error.hint)
    assert found.what.endswith(error.what)


def test_an_error_is_found_among_the_causes():
    error = HoneError("model-corrupt", "It failed.", why="No.", hint="Do this.")
    outer = OSError("gate: it failed")
    outer.__cause__ = error
    assert HoneError.find(outer) is error
    assert HoneError.find(error) is error


@pytest.mark.parametrize("text", ["", "It failed.", "a\n  why:  b\n  next: c\n  more: kedro-hone explain nothing"])
def test_a_text_without_an_error_holds_none(text):
    assert HoneError.find(ValueError(text)) is None


@pytest.mark.parametrize("slug", SLUGS)
def test_the_page_of_an_error_is_installed_and_has_no_links_to_files_that_are_not(slug):
    page = read_page(slug)
    assert page.startswith(f"# {slug}\n")
    assert "](" not in page


def test_an_error_is_explained_where_kedro_is_not_installed(tmp_path):
    for name in ("kedro", "click"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')")
    source = Path(kedro_hone.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "kedro_hone", "hone", "explain", "model-corrupt"],
        capture_output=True, text=True, check=False, env={"PYTHONPATH": f"{tmp_path}:{source}"},
    )  # fmt: skip
    assert done.stdout == read_page("model-corrupt"), done.stderr
