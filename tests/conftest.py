"""Small projects for the tests of the whole line. What they share is next to this file, since tests are no package."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small_project import Project, copy_project, make_template

from kedro_hone.core.environments.store import EnvironmentStore


def pytest_configure() -> None:
    """Draw one seed for all processes of the session: they must agree on the names of the tests."""
    os.environ.setdefault("HONE_SEED", str(random.SystemRandom().randrange(10**6)))


@pytest.fixture(scope="session")
def environments(tmp_path_factory) -> EnvironmentStore:
    """Where toolchains' own environments are built, once for all; ``HONE_HOME`` keeps them for the next time."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return EnvironmentStore(Path(os.environ.get("HONE_HOME") or shared / "environments"))


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
