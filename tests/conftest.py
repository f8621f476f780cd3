"""Small projects for the tests of the whole line. What they share lies beside this file, since tests are no package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small_project import Project, copy_project, make_template


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Path:
    """A project that never ran; its copies share nothing with it."""
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def project(template, tmp_path) -> Project:
    """A project of the test's own that never ran."""
    return copy_project(template, tmp_path)


@pytest.fixture(scope="session")
def finished(template, tmp_path_factory) -> Project:
    """A project that ran once and published a winner. It is shared: look at it, and change nothing."""
    project = copy_project(template, tmp_path_factory.mktemp("finished"))
    project.first = project.run()
    return project
